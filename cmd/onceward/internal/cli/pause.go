package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/dedup"
)

// pauseShown is a pause, as --json has it.
type pauseShown struct {
	Consumer string `json:"consumer"`
	Scope    string `json:"scope,omitzero"` // absent: the whole consumer
	Paused   bool   `json:"paused"`
	Changed  bool   `json:"changed"` // false: it was so before
}

func (a *app) pause() *cobra.Command {
	c := a.pausing("pause", "Let a consumer, or one scope of it, start nothing new; it survives restarts", true,
		dedup.SetPause)
	a.flagYes(c)
	return c
}

func (a *app) resume() *cobra.Command {
	return a.pausing("resume", "Let a consumer, or one scope of it, go on", false,
		dedup.LiftPause)
}

func (a *app) pausing(use, about string, paused bool, do func(context.Context, dedup.Applier, dedup.Pause) (bool, error)) *cobra.Command {
	var f connection
	scope, why := "", ""
	c := &cobra.Command{
		Use: use, Short: about, Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(why) > dedup.MaxError || paused && why == "" {
				return usage("--reason must say why, in at most %d bytes", dedup.MaxError)
			}
			return a.with(c.Context(), &f, needs{store: true, writes: true}, func(ctx context.Context, s *session) error {
				out := pauseShown{Consumer: s.queue.Consumer, Scope: scope, Paused: paused}
				name := "consumer " + out.Consumer
				if scope != "" {
					name = "scope " + scope + " of " + name
				}
				if paused {
					if err := a.confirm("Pause %s?", name); err != nil {
						return err
					}
				}
				var err error
				if s.via != nil {
					out.Changed, err = s.pauseVia(ctx, paused, scope, why)
				} else {
					out.Changed, err = do(ctx, s.queue.Store, dedup.Pause{Consumer: out.Consumer, Scope: scope, Who: s.who, Why: why})
				}
				if err != nil {
					return err
				}
				if a.json {
					return a.object(out)
				}
				word := map[bool]string{true: "paused", false: "not paused"}[paused]
				if !out.Changed {
					word += ", as before"
				}
				a.say("%s is %s", name, word)
				return nil
			})
		},
	}
	f.flags(c, false)
	c.Flags().StringVar(&scope, "scope", "", "only this `SCOPE`")
	c.Flags().StringVar(&why, "reason", "", "`why`; shown with the consumer's status")
	return c
}

// pauseVia has the consumer do it, which knows who asks.
func (s *session) pauseVia(ctx context.Context, paused bool, scope, why string) (bool, error) {
	if paused {
		return s.via.Pause(ctx, scope, why)
	}
	return s.via.Resume(ctx, scope, why)
}

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// pauseShown is a pause, as --json has it.
type pauseShown struct {
	Consumer string `json:"consumer"`
	Scope    string `json:"scope,omitzero"` // absent: the whole consumer
	Paused   bool   `json:"paused"`
	Changed  bool   `json:"changed"` // false: it was so before
}

func (a *app) pause() *cobra.Command {
	c := a.pausing("pause --reason TEXT", "Let a consumer, or one scope of it, start nothing new; it survives restarts",
		"  onceward pause --reason 'the bank is down'\n  onceward pause --scope order.pay --reason 'the bank is down'",
		"`why`; shown with the consumer's status", true, dedup.SetPause)
	a.flagYes(c)
	return c
}

func (a *app) resume() *cobra.Command {
	c := a.pausing("resume", "Let a consumer, or one scope of it, go on",
		"  onceward resume\n  onceward resume --scope order.pay",
		"`why`; a running consumer logs it", false, dedup.LiftPause)
	c.Long = `Let a consumer, or one scope of it, go on. Without --scope it ends the pause of the
whole consumer; pauses of single scopes stay, and are told.`
	return c
}

func (a *app) pausing(use, about, example, reason string, paused bool, do func(context.Context, dedup.Applier, dedup.Pause) (bool, error)) *cobra.Command {
	var f connection
	scope, why := "", ""
	c := &cobra.Command{
		Use: use, Short: about, Example: example, Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if paused || why != "" {
				if err := checkReason(why); err != nil {
					return err
				}
			}
			return a.with(c.Context(), &f, needs{store: true, writes: true}, func(ctx context.Context, s *session) error {
				return a.pauseOne(ctx, s, paused, dedup.Pause{Scope: scope, Why: why}, do)
			})
		},
	}
	f.flags(c, false)
	c.Flags().StringVar(&scope, "scope", "", "only this `SCOPE`")
	c.Flags().StringVar(&why, "reason", "", reason)
	return c
}

// pauseOne sets or lifts one pause of the session's consumer.
func (a *app) pauseOne(ctx context.Context, s *session, paused bool, p dedup.Pause, do func(context.Context, dedup.Applier, dedup.Pause) (bool, error)) error {
	p.Consumer, p.Who = s.queue.Consumer, s.who
	out := pauseShown{Consumer: p.Consumer, Scope: p.Scope, Paused: paused}
	name := "consumer " + out.Consumer
	if p.Scope != "" {
		name = "scope " + p.Scope + " of " + name
	}
	scopes, err := a.pausable(ctx, s, p.Scope)
	if err != nil {
		return err
	}
	if paused {
		if err := a.confirm("Pause %s?", name); err != nil {
			return err
		}
	}
	if s.via != nil {
		out.Changed, err = s.pauseVia(ctx, paused, p.Scope, p.Why)
	} else {
		out.Changed, err = do(ctx, s.queue.Store, p)
	}
	if err != nil {
		return err
	}
	if a.json {
		if err := a.object(out); err != nil {
			return err
		}
	} else {
		word := map[bool]string{true: "paused", false: "not paused"}[paused]
		switch {
		case !out.Changed:
			word += ", as before"
		case paused && s.via != nil:
			word += ": within about a second nothing new starts, and what runs goes on to its end"
		}
		a.say("%s is %s", name, word)
	}
	if paused {
		return nil
	}
	return a.stillPaused(ctx, s, scopes)
}

// stillPaused tells of pauses that a resume has left.
func (a *app) stillPaused(ctx context.Context, s *session, scopes []string) error {
	var left []dedup.Pause
	var err error
	if s.via != nil {
		var now []adminapi.Pause
		now, err = s.via.Pauses(ctx)
		for _, p := range now {
			left = append(left, p.Dedup(s.queue.Consumer))
		}
	} else {
		left, err = dedup.Pauses(ctx, s.queue.Store, s.queue.Consumer, scopes)
	}
	if err != nil {
		return fmt.Errorf("what else is paused is not known: %w", err)
	}
	for _, p := range left {
		what, flag := "consumer "+p.Consumer, ""
		if p.Scope != "" {
			what, flag = "scope "+p.Scope, " --scope "+shellWord(p.Scope)
		}
		a.say("%s is still paused, since %s: onceward resume%s ends that", what, when(p.Since), flag)
	}
	return nil
}

// pausable refuses a consumer or a scope that nothing is known of: the name is
// misspelt then, and a pause of it would hold nothing. It returns the scopes that
// the consumer may have. A route that has run nothing so far is in no file: of its
// scope that is said.
func (a *app) pausable(ctx context.Context, s *session, scope string) ([]string, error) {
	name := s.queue.Consumer
	if s.via != nil {
		scopes := s.routeScopes()
		if scope != "" && !slices.Contains(scopes, scope) {
			return nil, usage("consumer %s has no scope %q: it has %s", name, scope, strings.Join(scopes, ", "))
		}
		return scopes, nil
	}
	known, scopes, paused, err := s.scopes(ctx)
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, partly("%s has no record and no letter of a consumer %q: is the name right?", s.file.Info().Kind, name)
	case scope != "" && !slices.Contains(scopes, scope) && !slices.Contains(paused, scope):
		a.say("careful: no record and no letter of consumer %s has the scope %q; there are those of %s", name, scope, strings.Join(scopes, ", "))
	}
	all := slices.Concat(scopes, paused)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// routeScopes are those of a running consumer's routes.
func (s *session) routeScopes() []string {
	var scopes []string
	for _, r := range s.info.Routes {
		scopes = append(scopes, string(r.Scope))
	}
	return scopes
}

// scopes are those of a consumer's records and letters in a file, and others of
// which a pause may be there. Known says that there is anything of it.
func (s *session) scopes(ctx context.Context) (known bool, used, paused []string, err error) {
	see := func(k dedup.Key) {
		known = true
		of, name := &used, k.Scope
		if dedup.ReservedScope(name) {
			of = &paused
			if _, name, _ = strings.Cut(k.ID, " "); name == "" {
				return
			}
		}
		if !slices.Contains(*of, name) {
			*of = append(*of, name)
		}
	}
	for r, err := range s.queue.Store.Scan(ctx, s.queue.Consumer) {
		if err != nil {
			return false, nil, nil, err
		}
		see(r.Key)
	}
	for l, err := range s.queue.Store.ScanLetters(ctx, s.queue.Consumer) {
		if err != nil {
			return false, nil, nil, err
		}
		see(l.Key)
	}
	slices.Sort(used)
	return known, used, paused, nil
}

// pauseVia has the consumer do it, which knows who asks.
func (s *session) pauseVia(ctx context.Context, paused bool, scope, why string) (bool, error) {
	if paused {
		return s.via.Pause(ctx, scope, why)
	}
	return s.via.Resume(ctx, scope, why)
}

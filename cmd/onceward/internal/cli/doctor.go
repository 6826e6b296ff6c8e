package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/cmd/onceward/internal/doctor"
	"github.com/onceward/onceward/dedup"
)

// doctor looks at a consumer's setup.
func (a *app) doctor() *cobra.Command {
	var f connection
	c := &cobra.Command{
		Use: "doctor", Short: "A consumer's setup, against its broker and its store: what is wrong, and what mends it",
		Long: `Look at a consumer's setup, against its broker and its store. With --via all of it
is looked at; with --from and --store what the consumer itself would say is not.
Exit status 4 where something is wrong that loses or stops messages.`,
		Example: "  onceward doctor --via http://127.0.0.1:8080",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.with(c.Context(), &f, needs{letters: true}, func(ctx context.Context, s *session) error {
				in, err := s.setup(ctx)
				if err != nil {
					return err
				}
				return a.showFindings(doctor.Look(in))
			})
		},
	}
	f.flags(c, true)
	return c
}

// setup gathers what the doctor looks at.
func (s *session) setup(ctx context.Context) (doctor.Setup, error) {
	in := doctor.Setup{Consumer: s.queue.Consumer, Window: s.window()}
	if !s.blind {
		info := s.queue.Store.Info()
		in.Store = &info
	}
	var pairs []brokers.Destinations
	var sources []string
	switch {
	case s.info != nil:
		in.Known = true
		in.LocalGroup = s.info.LocalGroup
		in.Hung = s.info.Status.Hung
		for _, d := range s.info.Status.Degraded {
			in.Degraded = append(in.Degraded, string(d.What)+": "+string(d.Error))
		}
		for _, p := range s.info.Status.Paused {
			in.Paused = append(in.Paused, p.Dedup(in.Consumer))
		}
		for _, r := range s.info.Routes {
			in.Routes = append(in.Routes, doctor.Route{
				Scope: string(r.Scope), Window: time.Duration(r.Window), Archive: r.Archive,
				LongestWait: time.Duration(r.LongestWait),
			})
		}
		for _, t := range s.info.Topics {
			sources = append(sources, string(t.Name))
			pairs = append(pairs, brokers.Destinations{DeadLetter: string(t.DeadLetter), Retry: string(t.Retry)})
		}
	case s.source != "":
		sources, pairs = []string{s.source}, []brokers.Destinations{s.queue.Broker.Destinations(s.queue.Consumer, s.source)}
	default:
		return in, usage("which topic does the consumer read? --source TOPIC")
	}
	for i, source := range sources {
		infos, err := s.queue.Broker.Inspect(ctx, []string{source, pairs[i].DeadLetter, pairs[i].Retry})
		if err != nil {
			return in, err
		}
		if len(infos) != 3 {
			return in, fmt.Errorf("broker described %d of 3 topics", len(infos))
		}
		in.Topics = append(in.Topics, doctor.Topics{
			Source: infos[0], DeadLetter: infos[1], Retry: infos[2],
			Names:     [3]string{source, pairs[i].DeadLetter, pairs[i].Retry},
			JetStream: !strings.HasSuffix(pairs[i].DeadLetter, ".dlq"),
		})
	}
	if s.blind || in.Consumer == "" {
		return in, nil
	}
	for l, err := range s.queue.Store.ScanLetters(ctx, in.Consumer) {
		if err != nil {
			return in, err
		}
		if l.State == dedup.LetterHeld {
			in.Held++
		}
	}
	return in, nil
}

// diagnosis is all that was found, as --json has it.
type diagnosis struct {
	Findings   []doctor.Finding `json:"findings"`
	NotChecked []string         `json:"not_checked,omitzero"`
}

func (a *app) showFindings(found []doctor.Finding, unchecked []string) error {
	if a.json {
		if err := a.object(diagnosis{append([]doctor.Finding{}, found...), unchecked}); err != nil {
			return err
		}
	} else {
		for _, x := range found {
			f := a.facts()
			f.add(strings.ToUpper(string(x.Level)), x.What)
			f.add("  so", x.Consequence)
			f.add("  mend", x.Mend)
			if err := f.flush(); err != nil {
				return err
			}
		}
		if len(found) == 0 {
			a.say("nothing is wrong")
		}
		for _, text := range unchecked {
			a.say("not checked: %s", text)
		}
	}
	if slices.ContainsFunc(found, func(x doctor.Finding) bool { return x.Level == doctor.Error }) {
		return &exit{code: Partly}
	}
	return nil
}

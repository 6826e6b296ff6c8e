package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/onceward/onceward/cmd/onceward/internal/plain"
	"github.com/onceward/onceward/internal/adminapi"
)

// sayHindrances asks the consumer why it has not answered copies so far. Silent
// says that it has answered none: then it is told as well that it knows of nothing.
func (a *app) sayHindrances(ctx context.Context, s *session, silent bool) {
	if s.via == nil || ctx.Err() != nil {
		return
	}
	name := s.queue.Consumer
	now, err := s.via.Consumer(ctx)
	if err != nil {
		a.say("consumer %s does not say why: %v", name, err)
		return
	}
	all := hindrances(&now.Status)
	for _, text := range all {
		a.say("consumer %s: %s", name, plain.Line(text))
	}
	if len(all) == 0 && silent {
		a.say("consumer %s %s", name, unhindered(&now.Status))
	}
}

// unhindered is what there is to say of a consumer that works and has not
// answered all copies.
func unhindered(s *adminapi.Status) string {
	text := fmt.Sprintf("runs and knows of nothing that hinders it: it has %d messages in work%s", s.Unfinished, lagText(s.Lag))
	if s.Unfinished == 0 && s.Lag == 0 {
		text += "; what waits for its next try is answered later, and what was removed from its retry topic never: onceward dlq open ID frees such a letter for a new plan"
	}
	return text
}

func lagText(lag int64) string {
	if lag < 0 {
		return ""
	}
	return fmt.Sprintf(", and %d are not settled", lag)
}

// hindrances are what keeps a consumer from its work, for people.
func hindrances(s *adminapi.Status) []string {
	var all []string
	for _, p := range s.Paused {
		what, flag := "paused", ""
		if p.Scope != "" {
			what, flag = "its scope "+string(p.Scope)+" is paused", " --scope "+shellWord(string(p.Scope))
		}
		all = append(all, fmt.Sprintf("%s since %s, by %s: %s; onceward resume%s ends it",
			what, when(p.Since.Time()), cmp.Or(string(p.Who), "somebody"), cmp.Or(string(p.Why), "no reason was given"), flag))
	}
	if !s.Ready {
		all = append(all, "not ready: it has not opened its topics so far")
	}
	for _, d := range s.Degraded {
		all = append(all, fmt.Sprintf("%s: %s", d.What, d.Error))
	}
	if s.Hung > 0 {
		all = append(all, fmt.Sprintf("%d handlers hang", s.Hung))
	}
	if !s.Live {
		all = append(all, "not live: its process must be started again")
	}
	return all
}

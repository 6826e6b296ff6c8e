package cli

import (
	"fmt"
	"slices"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// recordSeen is an operation as record get has it.
type recordSeen struct {
	Record *adminapi.Record `json:"record"`
	// Letters of its key that the store has notes of.
	Letters []*adminapi.Letter `json:"letters,omitzero"`
}

func (a *app) showRecord(r *dedup.Record, letters []dedup.Letter) error {
	slices.SortFunc(letters, func(a, b dedup.Letter) int { return a.Noted.Compare(b.Noted) })
	if a.json {
		out := recordSeen{Record: recordShown(r)}
		for i := range letters {
			l := letters[i]
			l.Token = ""
			out.Letters = append(out.Letters, adminapi.OfLetter(&l))
		}
		return a.object(out)
	}
	fmt.Fprintln(a.out, "record")
	if err := a.recordFacts(r); err != nil {
		return err
	}
	if len(letters) == 0 {
		return nil
	}
	fmt.Fprintln(a.out, "\nletters")
	t := a.table("NOTED", "STATE", "REASON", "RUN", "WHO", "WHY", "ID")
	for _, l := range letters {
		if err := t.row(when(l.Noted), stateWord(l.State, &l), l.Reason, number(int(l.Run)), l.Who, short(l.Why, 60), l.ID); err != nil {
			return err
		}
	}
	return t.flush()
}

// stateWord is a letter's state and, where its copy was answered, how: one whose
// copy has failed again is resolved, too.
func stateWord(s dedup.LetterState, n *dedup.Letter) string {
	if n.Answer == dedup.Absent {
		return s.String()
	}
	return s.String() + ": " + n.Answer.String()
}

// recordFacts is a record for people.
func (a *app) recordFacts(r *dedup.Record) error {
	f := a.facts()
	f.add("  key", r.Key.String())
	f.add("  state", recordState(r))
	f.add("  run", number(int(r.Run)))
	f.add("  failures", number(int(r.Failures)))
	f.add("  crashes", number(int(r.Crashes)))
	f.add("  reason", r.Reason)
	f.add("  error", r.Error)
	f.add("  error type", r.ErrorType)
	f.add("  first failed", when(r.FirstFailed))
	f.add("  last failed", when(r.LastFailed))
	f.add("  created", when(r.Created))
	f.add("  claimed", when(r.Claimed))
	f.add("  finished", when(r.Finished))
	if r.State == dedup.Retryable {
		f.add("  not before", when(r.NotBefore))
	}
	if r.Source != (dedup.Position{}) {
		f.add("  source", fmt.Sprintf("%s/%d, offset %d", r.Source.Source, r.Source.Partition, r.Source.Offset))
	}
	if r.Window > 0 {
		f.add("  window", r.Window.String())
	}
	if r.Digest {
		f.add("  result", fmt.Sprintf("larger than what is kept, SHA-256 %x", r.Result))
	} else if r.Result != nil {
		f.add("  result", bytesText(r.Result))
	}
	for _, i := range r.Intents {
		f.add("  effect "+i.Effect, intentText(&i))
	}
	if r.Job != "" {
		text := "job " + r.Job
		if r.Letter != "" {
			text += ", letter " + r.Letter
		}
		f.add("  opened by", said(text+", by "+r.Approver, r.Why))
	} else if r.Approver != "" {
		f.add("  changed by", said(r.Approver, r.Why))
	}
	for _, e := range r.Evidence {
		f.add("  late write", fmt.Sprintf("%s, %s %s by a superseded owner: %s (it may have run twice)", when(e.At), e.Kind, e.Outcome, e.Note))
	}
	return f.flush()
}

// said is who did something, and why where that was said.
func said(who, why string) string {
	if why == "" {
		return who
	}
	return who + ": " + why
}

func recordState(r *dedup.Record) string {
	text := r.State.String()
	switch {
	case r.State == dedup.InProgress && r.Live:
		text += ", running until " + when(r.LeaseUntil) + " at least"
	case r.State == dedup.InProgress:
		text += ", its owner is gone: the next delivery takes it over"
	case r.State == dedup.Tombstone:
		text += ", as " + r.Outcome.String()
	}
	if r.Owed {
		text += ", its letter is not confirmed yet"
	}
	return text
}

func intentText(i *dedup.Intent) string {
	switch i.Status {
	case dedup.Confirmed:
		return "confirmed: " + i.External
	case dedup.Dispatched:
		return "in doubt since " + when(i.Dispatched)
	}
	return "did not happen"
}

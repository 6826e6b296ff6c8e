package deadletter

import (
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
)

// The rows of the table of decisions, and what stands beside it.
func TestEveryStateOfALetterAndItsRecordHasItsDecision(t *testing.T) {
	now := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	type facts struct {
		e     Entry
		r     dedup.Record
		terms Terms
	}
	// A letter of the present run of a failed record, open, an hour old.
	present := func(change ...func(*facts)) facts {
		f := facts{
			e: Entry{
				Letter: Letter{
					ID: "letter-1", Consumer: "billing", Reason: ReasonTerminal, Run: 1,
					Key:         dedup.Key{Consumer: "billing", Scope: "order.create", ID: "ord-1"},
					Fingerprint: dedup.Fingerprint{Rule: 1, Sum: [32]byte{1}},
				},
				Stored: now.Add(-time.Hour),
				Note:   dedup.Letter{ID: "letter-1", State: dedup.LetterOpen, Run: 1, Opened: 7},
			},
			r:     dedup.Record{State: dedup.Failed, Run: 1, Opened: 7, Fence: 9, Fingerprint: dedup.Fingerprint{Rule: 1, Sum: [32]byte{1}}},
			terms: Terms{Now: now, Window: 14 * day},
		}
		for _, c := range change {
			c(&f)
		}
		return f
	}
	state := func(s dedup.State) func(*facts) { return func(f *facts) { f.r.State = s } }
	note := func(s dedup.LetterState) func(*facts) { return func(f *facts) { f.e.Note.State = s } }
	other := func(f *facts) { f.r.Fingerprint.Sum[0]++ }
	laterRun := func(f *facts) { f.r.Run, f.r.Opened = 2, 12 }
	none := func(f *facts) { f.r = dedup.Record{} }
	keyless := func(f *facts) { f.e.Letter.Key, f.e.Letter.Fingerprint = dedup.Key{}, dedup.Fingerprint{} }
	old := func(f *facts) { f.e.Stored = now.Add(-15 * day) }
	tooOld := func(f *facts) { f.e.Letter.Reason = ReasonTooOld }
	tenDays := func(f *facts) { f.e.Stored = now.Add(-10 * day) }
	approve := func(f *facts) { f.terms.Approved = true }
	accept := func(f *facts) { f.terms.AcceptExpired = true }
	live := func(f *facts) { f.r.Live = true }
	doubt := func(f *facts) {
		f.r.State, f.r.Intents = dedup.InDoubt, []dedup.Intent{{Effect: "charge", Status: dedup.Dispatched}}
	}
	for name, c := range map[string]struct {
		facts
		want       Action
		approvable bool
	}{
		"letter owed": {present(func(f *facts) { f.r.Owed = true }), Skip, false},
		"failed, letter of the present run, same content":    {present(), Reopen, false},
		"retryable, letter of the present run, same content": {present(state(dedup.Retryable)), Reopen, false},
		"retryable, letter of an earlier run":                {present(state(dedup.Retryable), laterRun), Send, false},
		"failed, letter of an earlier run":                   {present(laterRun), Resolve, false},
		"failed, other content":                              {present(other), Refuse, true},
		"failed, other content, approved":                    {present(other, approve), Reopen, false},
		"retryable, other content":                           {present(state(dedup.Retryable), other), Refuse, true},
		"content by another rule is not compared":            {present(func(f *facts) { f.r.Fingerprint.Rule = 2 }), Reopen, false},
		"no record, within the window":                       {present(none), Send, false},
		"no record, ten days old":                            {present(none, tenDays), Send, false},
		"no record, without a key":                           {present(none, keyless), Send, false},
		"no record, older than the window":                   {present(none, old), Refuse, false},
		"no record, older than the window, without a key":    {present(none, keyless, old), Refuse, false},
		"no record, older than the window, approved":         {present(none, old, approve), Refuse, false},
		"no record, older than the window, accepted":         {present(none, old, accept), Send, false},
		"no key, older than the window, accepted":            {present(none, keyless, old, accept), Send, false},
		"no record and no note":                              {present(none, note(dedup.LetterNone)), Refuse, false},
		"no record and no note, accepted":                    {present(none, note(dedup.LetterNone), accept), Send, false},
		"no record and no note, of others":                   {present(none, note(dedup.LetterNone), func(f *facts) { f.e.Letter.Run = 0 }), Send, false},
		"no record and no note, without a key":               {present(none, note(dedup.LetterNone), keyless), Send, false},
		"no record, of a message that came too late":         {present(none, tooOld), Refuse, false},
		"of a message that came too late, accepted":          {present(none, tooOld, accept), Send, false},
		"failed, ten days old":                               {present(tenDays), Reopen, false},
		"failed, older than the window":                      {present(old), Reopen, false},
		"tombstone of a success":                             {present(state(dedup.Tombstone), func(f *facts) { f.r.Outcome = dedup.Succeeded }), Resolve, false},
		"tombstone of a success, other content":              {present(state(dedup.Tombstone), other, func(f *facts) { f.r.Outcome = dedup.Succeeded }), Refuse, false},
		"tombstone of a failure":                             {present(state(dedup.Tombstone), approve, func(f *facts) { f.r.Outcome = dedup.Failed }), Refuse, false},
		"running":                                            {present(state(dedup.InProgress), live), Skip, false},
		"running when the process died":                      {present(state(dedup.InProgress)), Send, false},
		"succeeded":                                          {present(state(dedup.Succeeded)), Resolve, false},
		"succeeded in a later run":                           {present(state(dedup.Succeeded), laterRun), Resolve, false},
		"succeeded, other content":                           {present(state(dedup.Succeeded), other), Refuse, false},
		"succeeded, other content, approved":                 {present(state(dedup.Succeeded), other, approve), Refuse, false},
		"in doubt":                                           {present(state(dedup.InDoubt)), Refuse, true},
		"in doubt, approved":                                 {present(state(dedup.InDoubt), approve), Reopen, false},
		"in doubt with an effect, approved":                  {present(doubt, approve), Refuse, false},
		"held":                                               {present(note(dedup.LetterHeld)), Refuse, true},
		"held, approved":                                     {present(note(dedup.LetterHeld), approve), Reopen, false},
		"resolved":                                           {present(note(dedup.LetterResolved)), Skip, false},
		"discarded":                                          {present(note(dedup.LetterDiscarded), approve), Skip, false},
		"gone":                                               {present(note(dedup.LetterGone)), Skip, false},
		"sent by another job":                                {present(note(dedup.LetterSent), func(f *facts) { f.e.Note.Job = "job-2" }), Skip, false},
		"taken by another job":                               {present(func(f *facts) { f.e.Note.Job = "job-2" }), Skip, false},
		"not readable":                                       {present(func(f *facts) { f.e.Err = errors.New("garbage") }), Refuse, false},
		"without a note, of the present run":                 {present(note(dedup.LetterNone)), Reopen, false},
		"without a note, of an earlier run":                  {present(note(dedup.LetterNone), laterRun), Resolve, false},
	} {
		got := Decide(&c.e, &c.r, c.terms)
		if got.Action != c.want || got.Approvable != c.approvable || got.Why == "" {
			t.Errorf("%s: %+v, want %s (approvable %v)", name, got, c.want, c.approvable)
		}
	}
}

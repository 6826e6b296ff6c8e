package storetest

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/dedup"
)

// held1 is how job-1 holds a letter.
func held1(l *dedup.Letter) { l.Job, l.Token = "job-1", "secret" }

// letterRows are about dead letters' notes.
var letterRows = []check{
	{"letter: noting it ends the debt", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed)
		stored := s.now()
		for range 2 {
			s.note("letter-1", c, func(l *dedup.Letter) { l.Source, l.Time = at(7), stored })
		}
		if r := s.is(c.key, dedup.Failed); r.Owed {
			s.Errorf("still owed")
		}
		l := s.letter("letter-1")
		if l.Key != c.key || l.State != dedup.LetterOpen || l.Reason != "terminal" || l.Run != 1 || l.Opened != c.Opened ||
			l.Source != at(7) || !plain(l.Time).Equal(plain(stored)) || l.Noted.IsZero() || l.Token != "" || l.Job != "" {
			s.Errorf("letter %+v", l)
		}
	}},
	{"letter: one that is older than its note says so, and none is younger", func(s *session) {
		c := s.keyless("letter-now")
		now := s.letter("letter-now").Noted
		for id, noted := range map[string]time.Time{"letter-before": now.Add(-time.Hour), "letter-ahead": now.Add(time.Hour)} {
			s.note(id, held{key: dedup.LetterKey(s.consumer, id)}, func(l *dedup.Letter) { l.Reason, l.Noted = "decode", noted })
			if l, before := s.letter(id), id == "letter-before"; before != plain(l.Noted).Equal(plain(noted)) || l.Noted.After(now.Add(time.Minute)) {
				s.Errorf("letter %+v, of %v", l, noted)
			}
		}
		s.is(c.key, dedup.Failed)
	}},
	{"letter: one of another run or about a newcomer ends no debt", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed)
		s.note("letter-other", c, func(l *dedup.Letter) { l.Opened++ })
		s.noteOf("letter-conflict", c, false, func(l *dedup.Letter) { l.Reason = "conflict" })
		if !s.record(c.key).Owed {
			s.Errorf("the record's own letter was forgotten")
		}
	}},
	{"letter: a note is never overwritten", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed)
		s.note("letter-1", c)
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterDiscarded, dedup.Done)
		s.note("letter-1", c)
		if l := s.letter("letter-1"); l.State != dedup.LetterDiscarded || l.Who != "ann" || l.Why != "fixed" {
			s.Errorf("letter %+v", l)
		}
	}},
	{"letter: it moves as its states allow", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed)
		allowed := map[dedup.LetterState]string{
			dedup.LetterOpen: "open sent resolved discarded held gone",
			dedup.LetterSent: "open resolved held gone",
			dedup.LetterHeld: "open sent resolved discarded gone",
			dedup.LetterGone: "resolved",
		}
		way := map[dedup.LetterState][]dedup.LetterState{ // from open to there
			dedup.LetterOpen: {}, dedup.LetterSent: {dedup.LetterSent}, dedup.LetterResolved: {dedup.LetterResolved},
			dedup.LetterDiscarded: {dedup.LetterDiscarded}, dedup.LetterHeld: {dedup.LetterHeld}, dedup.LetterGone: {dedup.LetterGone},
		}
		for from := dedup.LetterNone; from <= dedup.LetterGone; from++ {
			for to := dedup.LetterNone; to <= dedup.LetterGone; to++ {
				id := fmt.Sprintf("%s to %s", from, to)
				if from != dedup.LetterNone {
					s.note(id, c)
					at := dedup.LetterOpen
					for _, next := range way[from] {
						s.move(id, c.key, at, next, dedup.Done)
						at = next
					}
				}
				want := dedup.Refused
				if contains(allowed[from], to.String()) {
					want = dedup.Done
				}
				s.move(id, c.key, from, to, want)
				after := to
				if want == dedup.Refused {
					after = from
				}
				if l := s.letter(id); l.State != after {
					s.Errorf("%s: it is %s", id, l.State)
				}
			}
		}
	}},
	{"letter: a move from another state than seen is refused", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed)
		s.note("letter-1", c)
		s.move("letter-1", c.key, dedup.LetterHeld, dedup.LetterResolved, dedup.Refused)
		s.move("letter-1", s.key("another"), dedup.LetterOpen, dedup.LetterResolved, dedup.Refused)
		if l := s.letter("letter-1"); l.State != dedup.LetterOpen {
			s.Errorf("letter %+v", l)
		}
	}},
	{"letter: it is discarded only when its record is finished", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Doubt, dedup.InDoubt)
		s.note("letter-1", c)
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterDiscarded, dedup.Refused)
		s.operate(dedup.Reconcile, c.key, dedup.Done, func(o *dedup.OperatorOp) { o.To = dedup.Terminal })
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterDiscarded, dedup.Done)
		absent := held{key: s.key("never claimed")}
		s.note("letter-2", absent)
		s.move("letter-2", absent.key, dedup.LetterOpen, dedup.LetterDiscarded, dedup.Done)
	}},
	{"letter: what one job holds, no other takes, sends or resolves", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed)
		job := func(name string) func(*dedup.Letter) {
			return func(l *dedup.Letter) { l.Job, l.Token = name, "token of "+name }
		}
		s.note("letter-1", c)
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, job("job-1"))
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Refused, job("job-2"))
		// Another process of the same job, whose copy would bear another token.
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Refused, job("job-1"), func(l *dedup.Letter) { l.Token = "other" })
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterSent, dedup.Refused, job("job-2"))
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterSent, dedup.Done, job("job-1"))
		s.move("letter-1", c.key, dedup.LetterSent, dedup.LetterResolved, dedup.Refused, job("job-2"))
		if l := s.letter("letter-1"); l.State != dedup.LetterSent || l.Job != "job-1" || l.Token != "token of job-1" {
			s.Errorf("letter %+v", l)
		}
		s.move("letter-1", c.key, dedup.LetterSent, dedup.LetterResolved, dedup.Done, job("job-1"))
	}},
	{"letter: a person frees what a job holds", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed)
		s.note("letter-1", c)
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, held1)
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done)
		if l := s.letter("letter-1"); l.State != dedup.LetterOpen || l.Job != "" || l.Token != "secret" || l.Who != "ann" {
			s.Errorf("letter %+v", l)
		}
		s.move("letter-1", c.key, dedup.LetterSent, dedup.LetterResolved, dedup.Refused, func(l *dedup.Letter) { l.Token = "secret" })
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, func(l *dedup.Letter) { l.Job, l.Token = "job-2", "other" })
	}},
	{"letter: the answer to a copy resolves it, also before the copy is noted", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed)
		for n, by := range []func(*dedup.Letter){
			func(l *dedup.Letter) { l.Token = "secret" },
			func(l *dedup.Letter) { l.Job = "job-1" },
		} {
			for _, state := range []dedup.LetterState{dedup.LetterOpen, dedup.LetterSent} {
				id := fmt.Sprintf("letter %d %s", n, state)
				s.note(id, c)
				s.move(id, c.key, dedup.LetterSent, dedup.LetterResolved, dedup.Refused, by)
				s.move(id, c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, held1)
				nobody := func(l *dedup.Letter) { l.Who, l.Why = "", "" }
				if state == dedup.LetterSent {
					s.move(id, c.key, dedup.LetterOpen, dedup.LetterSent, dedup.Done, func(l *dedup.Letter) { l.Job = "job-1" })
				}
				s.move(id, c.key, dedup.LetterSent, dedup.LetterResolved, dedup.Refused, func(l *dedup.Letter) { l.Job, l.Token = "job-2", "guessed" })
				s.move(id, c.key, dedup.LetterSent, dedup.LetterResolved, dedup.Done, by, nobody, func(l *dedup.Letter) { l.Answer = dedup.Succeeded })
				if l := s.letter(id); l.State != dedup.LetterResolved || l.Answer != dedup.Succeeded || l.Who != "ann" || l.Why != "fixed" {
					s.Errorf("%s before: letter %+v", state, l)
				}
				s.want("send noted late", s.do(dedup.Op{Kind: dedup.SendNoted, Key: c.key, Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: id, Job: "job-1"}}}), dedup.Refused)
			}
		}
	}},
	{"letter: a copy that dies with its token opens it again, and the third run holds it", func(s *session) {
		c := held{key: dedup.LetterKey(s.consumer, "letter-1")}
		note := func(token string) {
			s.note("letter-1", c, func(l *dedup.Letter) { l.Reason, l.Token = "decode", token })
		}
		note("")
		for round, want := range []dedup.LetterState{dedup.LetterOpen, dedup.LetterHeld, dedup.LetterHeld} {
			was := s.letter("letter-1")
			s.move("letter-1", c.key, was.State, dedup.LetterOpen, dedup.Done, held1)
			if round > 0 {
				s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterSent, dedup.Done, func(l *dedup.Letter) { l.Job = "job-1" })
			}
			note("guessed")
			if l := s.letter("letter-1"); l.Token != "secret" || l.Job != "job-1" {
				s.Errorf("a guessed token decided: %+v", l)
			}
			for range 2 {
				note("secret")
			}
			s.want("send noted after the copy has died", s.do(dedup.Op{Kind: dedup.SendNoted, Key: c.key, Letter: &dedup.LetterOp{
				Letter: dedup.Letter{ID: "letter-1", Job: "job-1"},
			}}), dedup.Refused)
			s.move("letter-1", c.key, dedup.LetterSent, dedup.LetterResolved, dedup.Refused, func(l *dedup.Letter) { l.Token = "secret" })
			if l := s.letter("letter-1"); l.State != want || l.Run != uint32(round+2) || l.Token != "secret" || l.Job != "" || l.Reason != "decode" {
				s.Errorf("round %d: letter %+v, want %s", round, l, want)
			}
		}
	}},
	{"letter: one of a third run is held", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed)
		for run, want := range map[uint32]dedup.LetterState{1: dedup.LetterOpen, 2: dedup.LetterOpen, 3: dedup.LetterHeld, 9: dedup.LetterHeld} {
			id := fmt.Sprint("letter-of-run-", run)
			s.note(id, c, func(l *dedup.Letter) { l.Run = run })
			if l := s.letter(id); l.State != want || l.Run != run {
				s.Errorf("letter %+v, want %s", l, want)
			}
		}
	}},
	{"letter: a copy that is sent is noted with its record, once", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed)
		s.note("letter-1", c)
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, held1)
		s.operate(dedup.Reopen, c.key, dedup.Done)
		sent := dedup.Op{Kind: dedup.SendNoted, Key: c.key, Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "letter-1", Job: "job-1"}}}
		for range 2 {
			s.want("send noted", s.do(sent), dedup.Done)
		}
		if l, r := s.letter("letter-1"), s.record(c.key); l.State != dedup.LetterSent || l.Job != "job-1" || !r.Sent || r.Job != "job-1" || r.Letter != "letter-1" {
			s.Errorf("letter %+v, record %+v", l, r)
		}
		other := sent
		other.Letter = &dedup.LetterOp{Letter: dedup.Letter{ID: "letter-1", Job: "job-2"}}
		s.want("send noted by another job", s.do(other), dedup.Refused)
	}},
	{"letter: a copy of a message without one is noted on its record", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Success, dedup.Succeeded)
		s.operate(dedup.Reopen, c.key, dedup.Done, func(o *dedup.OperatorOp) { o.Letter, o.Send = "", at(7) })
		s.want("send noted", s.do(dedup.Op{Kind: dedup.SendNoted, Key: c.key, Letter: &dedup.LetterOp{Letter: dedup.Letter{Job: "job-1"}}}), dedup.Done)
		if r := s.record(c.key); !r.Sent || r.Source != at(7) {
			s.Errorf("record %+v", r)
		}
	}},
	{"letter: one without a key has a record, which its copy ends", func(s *session) {
		c := s.keyless("letter-1")
		if r := s.is(c.key, dedup.Failed); r.Run != 1 || r.Reason != "decode" || r.Owed || r.Window != window || r.Finished.IsZero() || r.Source != at(7) {
			s.Errorf("record %+v", r)
		}
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, held1)
		s.operate(dedup.Reopen, c.key, dedup.Done)
		s.operate(dedup.Reopen, c.key, dedup.Refused, func(o *dedup.OperatorOp) { o.Job, o.Seen.Run = "job-2", 1 })
		s.want("send noted", s.do(dedup.Op{Kind: dedup.SendNoted, Key: c.key, Letter: &dedup.LetterOp{
			Letter: dedup.Letter{ID: "letter-1", Job: "job-1"},
		}}), dedup.Done)
		s.note("letter-1", c, func(l *dedup.Letter) { l.Reason = "decode" }) // by a late delivery of the original
		if r := s.is(c.key, dedup.Retryable); r.Run != 2 || !r.Sent || r.Job != "job-1" {
			s.Errorf("record %+v", r)
		}
		s.move("letter-1", c.key, dedup.LetterSent, dedup.LetterResolved, dedup.Done, func(l *dedup.Letter) { l.Token, l.Answer = "secret", dedup.Succeeded })
		if r := s.is(c.key, dedup.Succeeded); r.Run != 2 || r.Reason != "" {
			s.Errorf("record %+v", r)
		}
	}},
	{"letter: one without a key whose copy dies fails again", func(s *session) {
		c := s.keyless("letter-1")
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, held1)
		s.operate(dedup.Reopen, c.key, dedup.Done)
		s.note("letter-1", c, func(l *dedup.Letter) { l.Reason, l.Token = "decode", "secret" })
		if r := s.is(c.key, dedup.Failed); r.Run != 2 || r.Reason != "decode" {
			s.Errorf("record %+v", r)
		}
	}},
	{"letter: its record is opened by the job that holds it and by no other", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed)
		s.note("letter-1", c)
		keyless := s.keyless("letter-2")
		for id, key := range map[string]dedup.Key{"letter-1": c.key, "letter-2": keyless.key} {
			named := func(o *dedup.OperatorOp) { o.Letter = id }
			s.operate(dedup.Reopen, key, dedup.Refused, named)
			s.move(id, key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, func(l *dedup.Letter) { l.Job, l.Token = "job-2", "other"+id })
			s.operate(dedup.Reopen, key, dedup.Refused, named)
			s.move(id, key, dedup.LetterOpen, dedup.LetterDiscarded, dedup.Refused)
			s.move(id, key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done)
			s.operate(dedup.Reopen, key, dedup.Refused, named)
			s.move(id, key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, func(l *dedup.Letter) { l.Job, l.Token = "job-1", id })
			s.operate(dedup.Reopen, key, dedup.Done, named)
		}
	}},
	{"letter: one without a key that a person frees is no run of anybody", func(s *session) {
		c := s.keyless("letter-1")
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, held1)
		s.operate(dedup.Reopen, c.key, dedup.Done)
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterDiscarded, dedup.Refused)
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done)
		s.is(c.key, dedup.Failed)
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterDiscarded, dedup.Done)
		s.is(c.key, dedup.Failed)
	}},
	{"letter: one without a key goes with its record when the window is over", func(s *session) {
		c := s.keyless("letter-1")
		s.advance(8)
		s.pass(windowOver)
		s.swept("while the letter is open", 0)
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterDiscarded, dedup.Done)
		s.swept("when it is discarded", 1)
		s.is(c.key, dedup.Absent)
		if l := s.letter("letter-1"); l.State != dedup.LetterNone {
			s.Errorf("letter %+v", l)
		}
	}},
	{"letter: one without a key has no other letter's record", func(s *session) {
		c := s.keyless("letter-1")
		a := s.do(dedup.Op{Kind: dedup.NoteLetter, Key: c.key, Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: "letter-2", Reason: "decode"}}})
		s.want("note of another", a, dedup.Invalid)
	}},
}

// keyless notes a letter whose message has no usable key.
func (s *session) keyless(id string) held {
	s.Helper()
	c := held{key: dedup.LetterKey(s.consumer, id)}
	s.note(id, c, func(l *dedup.Letter) { l.Reason, l.Source = "decode", at(7) })
	return c
}

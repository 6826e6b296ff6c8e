package storetest

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/dedup"
)

// claimRows: a claim is answered by the first row that holds.
var claimRows = []check{
	{"claim: an absent key is acquired", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		r := s.is(c.key, dedup.InProgress)
		if c.Fence == 0 || c.Run != 1 || c.Opened != c.Fence || c.State != dedup.InProgress {
			s.Errorf("answer %+v", c.Answer)
		}
		if r.Fence != c.Fence || r.Run != 1 || r.Opened != c.Fence || !r.Live || r.Alone || r.Token != c.token || r.Fingerprint != digest(1) {
			s.Errorf("record %+v", r)
		}
	}},
	{"claim: a live claim is busy with the remaining lease", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.pass(4 * time.Second)
		before := s.record(c.key)
		busy := s.claim("k", dedup.Busy)
		if want := lease - 4*time.Second; busy.Wait > want || busy.Wait < want-time.Second/4 {
			s.Errorf("remaining lease %v, want about %v", busy.Wait, want)
		}
		s.same(before)
	}},
	{"claim: repeated with its token, it gets its first answer and fence", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		again := s.claim("k", dedup.Acquired, func(op *dedup.Op) { op.Token = c.token })
		if again.Fence != c.Fence || again.Crashes != 0 {
			s.Errorf("answer %+v, first was %+v", again.Answer, c.Answer)
		}
	}},
	{"claim: a lapsed claim is taken over with the fence up and a crash counted", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.pass(leaseOver)
		if r := s.is(c.key, dedup.InProgress); r.Live {
			s.Errorf("the lease is over and the record says live: %+v", r)
		}
		next := s.claim("k", dedup.Acquired)
		if next.Fence <= c.Fence || next.Crashes != 1 || next.Lone != 0 || next.Failures != 0 || next.Run != 1 || next.Opened != c.Opened {
			s.Errorf("answer %+v after %+v", next.Answer, c.Answer)
		}
		if next.Record == nil || next.Record.Crashes != 1 {
			s.Errorf("a claim with a history comes without its record")
		}
	}},
	{"claim: crashes beside others never bury", func(s *session) {
		for n := range uint32(8) {
			if c := s.claim("k", dedup.Acquired); c.Crashes != n {
				s.Fatalf("%d crashes counted, want %d", c.Crashes, n)
			}
			s.pass(leaseOver)
		}
	}},
	{"claim: lone crashes bury at their bound, this takeover counted", func(s *session) {
		s.by(s.claim("k", dedup.Acquired), dedup.Alone, dedup.Done)
		s.pass(leaseOver)
		c := s.claim("k", dedup.Acquired)
		if c.Lone != 1 || c.Crashes != 1 {
			s.Errorf("answer %+v", c.Answer)
		}
		s.by(c, dedup.Alone, dedup.Done)
		s.pass(leaseOver)
		c = s.claim("k", dedup.AcquiredToBury)
		if c.Lone != 2 || c.Crashes != 2 {
			s.Errorf("answer %+v", c.Answer)
		}
		s.end(c, dedup.Exhausted, dedup.Failed)
	}},
	{"claim: being alone ends with the claim", func(s *session) {
		s.by(s.claim("k", dedup.Acquired), dedup.Alone, dedup.Done)
		s.pass(leaseOver)
		s.claim("k", dedup.Acquired)
		s.pass(leaseOver)
		if c := s.claim("k", dedup.Acquired); c.Lone != 1 || c.Crashes != 2 {
			s.Errorf("answer %+v", c.Answer)
		}
	}},
	{"claim: used up failures bury", func(s *session) {
		for range 3 {
			s.end(s.claim("k", dedup.Acquired), dedup.Failure, dedup.Retryable)
		}
		c := s.claim("k", dedup.AcquiredToBury)
		if c.Failures != 3 || c.Record == nil {
			s.Errorf("answer %+v", c.Answer)
		}
		s.end(c, dedup.Exhausted, dedup.Failed)
		if r := s.record(c.key); r.Failures != 3 {
			s.Errorf("burying counted a failure: %d", r.Failures)
		}
	}},
	{"claim: early is answered with the time left", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Failure, dedup.Retryable, func(op *dedup.Op) { op.Wait = pause })
		s.pass(2 * time.Second)
		early := s.claim("k", dedup.NotBefore)
		if want := pause - 2*time.Second; early.Wait > want || early.Wait < want-time.Second/4 {
			s.Errorf("time left %v, want about %v", early.Wait, want)
		}
		s.pass(4 * time.Second)
		if next := s.claim("k", dedup.Acquired); next.Fence <= c.Fence || next.Failures != 1 || next.Crashes != 0 {
			s.Errorf("answer %+v", next.Answer)
		}
	}},
	{"claim: succeeded is a duplicate with its result", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Success, dedup.Succeeded, func(op *dedup.Op) { op.Result = []byte("receipt 7") })
		before := s.record(c.key)
		d := s.claim("k", dedup.DuplicateSucceeded)
		if d.Record == nil || string(d.Record.Result) != "receipt 7" || d.Record.Digest || d.Fence != c.Fence {
			s.Errorf("answer %+v", d.Answer)
		}
		s.same(before)
	}},
	{"claim: failed is a duplicate that can write the letter", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Terminal, dedup.Failed, func(op *dedup.Op) {
			op.Reason, op.Error, op.ErrorType, op.Stack = "terminal", "no such customer", "app.Error", "main.go:1"
		})
		d := s.claim("k", dedup.DuplicateFailed)
		if r := d.Record; r == nil || !r.Owed || r.Reason != "terminal" || r.Error != "no such customer" || r.ErrorType != "app.Error" ||
			r.Stack != "main.go:1" || r.Opened != c.Fence || r.Run != 1 {
			s.Errorf("answer %+v, record %+v", d.Answer, d.Record)
		}
	}},
	{"claim: in doubt is held", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Doubt, dedup.InDoubt)
		before := s.record(c.key)
		s.pass(leaseOver)
		if d := s.claim("k", dedup.HeldInDoubt); d.Record == nil || !d.Record.Owed {
			s.Errorf("answer %+v", d.Answer)
		}
		s.same(before)
	}},
	{"claim: other content conflicts in every state and changes nothing", func(s *session) {
		other := func(op *dedup.Op) { op.Fingerprint = digest(2) }
		for name, prepare := range map[string]func(held){
			"live":      func(held) {},
			"lapsed":    func(held) { s.pass(leaseOver) },
			"retryable": func(c held) { s.end(c, dedup.Failure, dedup.Retryable) },
			"early":     func(c held) { s.end(c, dedup.Failure, dedup.Retryable, func(op *dedup.Op) { op.Wait = time.Hour }) },
			"succeeded": func(c held) { s.end(c, dedup.Success, dedup.Succeeded) },
			"failed":    func(c held) { s.end(c, dedup.Terminal, dedup.Failed) },
			"in doubt":  func(c held) { s.end(c, dedup.Doubt, dedup.InDoubt) },
		} {
			c := s.claim(name, dedup.Acquired)
			prepare(c)
			before := s.record(c.key)
			if a := s.claim(name, dedup.Conflict, other); a.Record == nil || a.Record.Fingerprint != digest(1) {
				s.Errorf("%s: answer %+v", name, a.Answer)
			}
			s.same(before)
		}
	}},
	{"claim: fingerprints of other rules are not compared", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Success, dedup.Succeeded)
		d := s.claim("k", dedup.DuplicateSucceeded, func(op *dedup.Op) { op.Fingerprint = dedup.Fingerprint{Sum: [32]byte{9}, Rule: 2} })
		if !d.OtherRule {
			s.Errorf("the answer does not tell")
		}
	}},
	{"claim: older than the window and passed before is too old", func(s *session) {
		s.pass(10 * time.Minute)
		s.advance(100)
		old := s.now().Add(-windowOver)
		for n, c := range []struct {
			why    string
			offset int64
			stored time.Time
			window time.Duration
			kind   dedup.AnswerKind
		}{
			{"passed and old", 99, old, window, dedup.TooOld},
			{"first delivery of a backlog", 100, old, window, dedup.Acquired},
			{"within the window", 99, s.now().Add(-window / 2), window, dedup.Acquired},
			{"of unknown age", 99, time.Time{}, window, dedup.Acquired},
			{"kept for ever", 99, old, 0, dedup.Acquired},
		} {
			id := fmt.Sprint(n)
			a := s.do(s.claimOp(id, with(func(p *dedup.Policy) { p.Window = c.window }), func(op *dedup.Op) {
				op.Position, op.Stored = at(c.offset), c.stored
			}))
			if a.Kind != c.kind {
				s.Errorf("%s: answered %s, want %s", c.why, a.Kind, c.kind)
			}
			if c.kind == dedup.TooOld {
				s.is(s.key(id), dedup.Absent)
			}
		}
		s.claim("copy", dedup.TooOld, func(op *dedup.Op) { op.Stored, op.Copy = old, true })
		s.claim("young copy", dedup.Acquired, func(op *dedup.Op) { op.Stored, op.Copy = s.now().Add(-window/2), true })
		s.claim("other source", dedup.Acquired, func(op *dedup.Op) {
			op.Position, op.Stored = dedup.Position{Source: "orders@2", Offset: 99}, old
		})
		s.claim("other partition", dedup.Acquired, func(op *dedup.Op) {
			op.Position, op.Stored = dedup.Position{Source: "orders@1", Partition: 1, Offset: 99}, old
		})
		s.claim("no source", dedup.Acquired, func(op *dedup.Op) { op.Stored = old })
	}},
	{"claim: a key that is there is never too old", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Success, dedup.Succeeded)
		s.advance(100)
		s.claim("k", dedup.DuplicateSucceeded, func(op *dedup.Op) {
			op.Position, op.Stored = at(1), s.now().Add(-time.Hour)
		})
	}},
	{"claim: a replay token that a letter of the key holds overrides too old", func(s *session) {
		s.pass(10 * time.Minute)
		s.advance(100)
		old := func(token string) func(*dedup.Op) {
			return func(op *dedup.Op) {
				op.Position, op.Stored, op.ReplayToken = at(1), s.now().Add(-windowOver), token
			}
		}
		token := func(l *dedup.Letter) { l.Token, l.Job, l.Expired = "secret", "job-1", true }
		s.note("letter-k", held{key: s.key("k")})
		s.claim("k", dedup.TooOld, old("secret"))
		s.move("letter-k", s.key("k"), dedup.LetterOpen, dedup.LetterOpen, dedup.Done, token)
		s.claim("k", dedup.TooOld, old(""))
		s.claim("k", dedup.TooOld, old("forged"))
		s.claim("another", dedup.TooOld, old("secret"))
		s.claim("k", dedup.Acquired, old("secret"))

		keyless := dedup.LetterKey(s.consumer, "letter-keyless")
		s.note("letter-keyless", held{key: keyless}, func(l *dedup.Letter) { l.Reason = "decode" })
		take := func(l *dedup.Letter) { l.Token, l.Job = "fixed", "job-1" }
		s.move("letter-keyless", keyless, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, take)
		s.claim("found since", dedup.TooOld, old("fixed")) // nobody has said that it may have expired
		s.move("letter-keyless", keyless, dedup.LetterOpen, dedup.LetterSent, dedup.Done, take, func(l *dedup.Letter) { l.Expired = true })
		s.claim("found since", dedup.Acquired, old("fixed"))
		s.move("letter-keyless", keyless, dedup.LetterSent, dedup.LetterResolved, dedup.Done, func(l *dedup.Letter) { l.Job = "job-1" })
		s.claim("once more", dedup.TooOld, old("fixed"))
	}},
}

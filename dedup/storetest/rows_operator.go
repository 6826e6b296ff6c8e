package storetest

import (
	"time"

	"github.com/onceward/onceward/dedup"
)

// operatorRows are decisions of people, replays and reconciliation.
var operatorRows = []check{
	{"operator: every write compares state, run and fence as seen", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		before := s.record(c.key)
		for _, change := range []func(*dedup.OperatorOp){
			func(o *dedup.OperatorOp) { o.Seen.State = dedup.Retryable },
			func(o *dedup.OperatorOp) { o.Seen.Run++ },
			func(o *dedup.OperatorOp) { o.Seen.Fence-- },
			func(o *dedup.OperatorOp) { o.Expires = s.now().Add(-time.Minute) },
		} {
			s.operate(dedup.Unlock, c.key, dedup.Refused, change)
		}
		s.same(before)
		s.operate(dedup.Unlock, c.key, dedup.Done, func(o *dedup.OperatorOp) { o.Expires = s.now().Add(time.Minute) })
		if r := s.record(c.key); r.Approver != "ann" || r.Why != "asked the bank" {
			s.Errorf("record %+v", r)
		}
	}},
	{"operator: an unlocked claim is lapsed, and no lone crash", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.by(c, dedup.Alone, dedup.Done)
		s.operate(dedup.Unlock, c.key, dedup.Done)
		if r := s.is(c.key, dedup.InProgress); r.Live || r.Alone || r.Fence != c.Fence {
			s.Errorf("record %+v", r)
		}
		if next := s.claim("k", dedup.Acquired); next.Crashes != 1 || next.Lone != 0 {
			s.Errorf("answer %+v", next.Answer)
		}
		s.end(s.claim("done", dedup.Acquired), dedup.Success, dedup.Succeeded)
		s.operate(dedup.Unlock, s.key("done"), dedup.Refused)
	}},
	{"operator: unlocking ends no doubt", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.by(c, dedup.Dispatch, dedup.Done, sms)
		s.operate(dedup.Unlock, c.key, dedup.Done)
		s.claim("k", dedup.HeldInDoubt)
	}},
	{"operator: deleting needs a record that nobody needs", func(s *session) {
		del := func(id string, kind dedup.AnswerKind) { s.operate(dedup.Delete, s.key(id), kind) }
		s.claim("running", dedup.Acquired)
		del("running", dedup.Refused)
		s.end(s.claim("in doubt", dedup.Acquired), dedup.Doubt, dedup.InDoubt)
		del("in doubt", dedup.Refused)
		effect := s.claim("effect", dedup.Acquired)
		s.by(effect, dedup.Dispatch, dedup.Done, charge)
		s.by(effect, dedup.Confirm, dedup.Done, charge)
		s.end(effect, dedup.Success, dedup.Succeeded)
		del("effect", dedup.Refused)
		owed := s.claim("letter", dedup.Acquired)
		s.end(owed, dedup.Terminal, dedup.Failed)
		del("letter", dedup.Refused)
		s.note("letter-1", owed)
		del("letter", dedup.Refused)
		s.move("letter-1", owed.key, dedup.LetterOpen, dedup.LetterHeld, dedup.Done)
		del("letter", dedup.Refused)
		s.move("letter-1", owed.key, dedup.LetterHeld, dedup.LetterResolved, dedup.Done)
		del("letter", dedup.Done)
		retryable := s.claim("retryable", dedup.Acquired)
		s.end(retryable, dedup.Failure, dedup.Retryable)
		del("retryable", dedup.Done)
		done := s.claim("done", dedup.Acquired)
		s.end(done, dedup.Success, dedup.Succeeded)
		del("done", dedup.Done)
		for id, was := range map[string]held{"letter": owed, "retryable": retryable, "done": done} {
			s.is(s.key(id), dedup.Absent)
			if c := s.claim(id, dedup.Acquired); c.Fence <= was.Fence || c.Failures != 0 || c.Run != 1 {
				s.Errorf("%s: claim after deletion: %+v, the fence was %d", id, c.Answer, was.Fence)
			}
		}
	}},
	{"operator: an imported record answers as succeeded", func(s *session) {
		imported := func(o *dedup.OperatorOp) {
			o.Fingerprint, o.Result, o.Window, o.Archive = digest(1), []byte("from the old system"), window, true
		}
		s.operate(dedup.Import, s.key("k"), dedup.Done, imported)
		d := s.claim("k", dedup.DuplicateSucceeded)
		if r := d.Record; r == nil || string(r.Result) != "from the old system" || r.Window != window || !r.Archive || r.Run != 1 || r.Fence == 0 || r.Finished.IsZero() {
			s.Errorf("record %+v", d.Record)
		}
		s.claim("k", dedup.Conflict, func(op *dedup.Op) { op.Fingerprint = digest(2) })
		s.operate(dedup.Import, s.key("k"), dedup.Refused, imported)
	}},
	{"reconcile: it ends what is in doubt, and only once every doubt is decided", func(s *session) {
		decide := func(to dedup.Outcome, v dedup.Verdict) func(*dedup.OperatorOp) {
			return func(o *dedup.OperatorOp) {
				o.To, o.Decide, o.Result = to, map[string]dedup.Verdict{"charge": v}, []byte("by the books")
			}
		}
		doubt := func(id string) held {
			c := s.claim(id, dedup.Acquired)
			s.by(c, dedup.Dispatch, dedup.Done, charge)
			s.end(c, dedup.Success, dedup.InDoubt)
			return c
		}
		c := doubt("happened")
		before := s.record(c.key)
		s.operate(dedup.Reconcile, c.key, dedup.Refused, decide(dedup.Success, dedup.Keep))
		s.operate(dedup.Reconcile, c.key, dedup.Refused, decide(dedup.Release, dedup.DidNot)) // still within the quiet period
		s.same(before)
		s.operate(dedup.Reconcile, c.key, dedup.Done, decide(dedup.Success, dedup.Happened))
		if r := s.is(c.key, dedup.Succeeded); r.Owed || r.Doubt() || string(r.Result) != "by the books" || r.Fence != c.Fence || r.Finished.IsZero() {
			s.Errorf("record %+v", r)
		}
		s.operate(dedup.Reconcile, c.key, dedup.Refused, decide(dedup.Terminal, dedup.Happened))

		c = doubt("did not")
		readEarly := s.now()
		s.pass(quietOver)
		s.operate(dedup.Reconcile, c.key, dedup.Refused, decide(dedup.Release, dedup.DidNot), func(o *dedup.OperatorOp) { o.BooksReadAt = readEarly })
		s.operate(dedup.Reconcile, c.key, dedup.Done, decide(dedup.Release, dedup.DidNot), func(o *dedup.OperatorOp) { o.Job, o.Letter = "job-1", "letter-1" })
		r := s.is(c.key, dedup.Retryable)
		if r.Run != 2 || r.Fence <= c.Fence || r.Opened != r.Fence || r.Owed || r.Doubt() || r.Failures != 0 || r.Job != "job-1" || r.Letter != "letter-1" {
			s.Errorf("record %+v", r)
		}
		s.claim("did not", dedup.Acquired)
	}},
	{"reconcile: failed owes its letter only if it still was owed", func(s *session) {
		for _, noted := range []bool{false, true} {
			id := map[bool]string{false: "owed", true: "noted"}[noted]
			c := s.claim(id, dedup.Acquired)
			s.end(c, dedup.Doubt, dedup.InDoubt)
			if noted {
				s.note("letter-1", c)
			}
			s.operate(dedup.Reconcile, c.key, dedup.Done, func(o *dedup.OperatorOp) { o.To = dedup.Terminal })
			if r := s.is(c.key, dedup.Failed); r.Owed == noted || r.Reason != dedup.ReasonTerminal {
				s.Errorf("%s: record %+v", id, r)
			}
		}
	}},
	{"reopen: a new run with the fence up and counters at 0", func(s *session) {
		for id, o := range map[string]dedup.Outcome{"succeeded": dedup.Success, "failed": dedup.Terminal, "retryable": dedup.Failure, "in doubt": dedup.Doubt} {
			c := s.claim(id, dedup.Acquired)
			s.want("end", s.do(endOp(c, o, func(op *dedup.Op) { op.Wait, op.Result = time.Hour, []byte("old") })), dedup.Done)
			if o == dedup.Terminal || o == dedup.Doubt {
				s.operate(dedup.Reopen, c.key, dedup.Refused) // its letter is owed
				s.note("letter of "+id, c)
			}
			s.operate(dedup.Reopen, c.key, dedup.Refused, func(op *dedup.OperatorOp) { op.LetterRun = 0 })
			a := s.operate(dedup.Reopen, c.key, dedup.Done, func(op *dedup.OperatorOp) { op.Fingerprint = digest(2) })
			r := s.is(c.key, dedup.Retryable)
			if r.Run != 2 || a.Run != 2 || r.Fence <= c.Fence || r.Opened != r.Fence || r.Failures != 0 || r.Crashes != 0 || r.Lone != 0 ||
				!r.NotBefore.IsZero() || r.Fingerprint != digest(2) || len(r.Result) != 0 || r.Error != "" || r.Job != "job-1" || r.Letter != "letter-1" || r.Sent {
				s.Errorf("%s: record %+v", id, r)
			}
			s.claim(id, dedup.Conflict)
			if next := s.claim(id, dedup.Acquired, func(op *dedup.Op) { op.Fingerprint = digest(2) }); next.Run != 2 || next.Record == nil {
				s.Errorf("%s: answer %+v", id, next.Answer)
			}
		}
	}},
	{"reopen: neither what runs nor what is absent", func(s *session) {
		s.claim("running", dedup.Acquired)
		s.operate(dedup.Reopen, s.key("running"), dedup.Refused)
		s.operate(dedup.Reopen, s.key("absent"), dedup.Refused)
		s.is(s.key("absent"), dedup.Absent)
	}},
	{"reopen: the same job goes on, another is refused", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.end(c, dedup.Success, dedup.Succeeded)
		r := s.record(c.key)
		asSeen := func(job string) func(*dedup.OperatorOp) {
			return func(o *dedup.OperatorOp) { o.Seen, o.LetterRun, o.Job = r.Seen(), r.Run, job }
		}
		s.operate(dedup.Reopen, c.key, dedup.Done, asSeen("job-1"))
		before := s.record(c.key)
		s.operate(dedup.Reopen, c.key, dedup.Refused, asSeen("job-2"))
		if a := s.operate(dedup.Reopen, c.key, dedup.Continued, asSeen("job-1")); a.Record == nil || a.Record.Run != 2 {
			s.Errorf("answer %+v", a)
		}
		s.same(before)
		s.end(s.claim("k", dedup.Acquired), dedup.Success, dedup.Succeeded)
		s.operate(dedup.Reopen, c.key, dedup.Continued, asSeen("job-1"))
		s.is(c.key, dedup.Succeeded)
	}},
	{"reopen: every doubt is decided; to run again is the effect's next run", func(s *session) {
		c := s.claim("k", dedup.Acquired)
		s.by(c, dedup.Dispatch, dedup.Done, charge)
		s.by(c, dedup.Dispatch, dedup.Done, sms)
		s.end(c, dedup.Doubt, dedup.InDoubt)
		s.note("letter-1", c)
		s.move("letter-1", c.key, dedup.LetterOpen, dedup.LetterOpen, dedup.Done, held1)
		decide := func(v map[string]dedup.Verdict) func(*dedup.OperatorOp) {
			return func(o *dedup.OperatorOp) { o.Decide = v }
		}
		s.operate(dedup.Reopen, c.key, dedup.Refused, decide(map[string]dedup.Verdict{"charge": dedup.Happened}))
		s.operate(dedup.Reopen, c.key, dedup.Done, decide(map[string]dedup.Verdict{"charge": dedup.Happened, "sms": dedup.RunAgain}))
		r := s.is(c.key, dedup.Retryable)
		if len(r.Intents) != 2 {
			s.Fatalf("intents %+v", r.Intents)
		}
		for _, i := range r.Intents {
			switch {
			case i.Effect == "charge" && i.Status == dedup.Confirmed && i.EffectRun == 0:
			case i.Effect == "sms" && i.Status == dedup.NoIntent && i.EffectRun == 1:
			default:
				s.Errorf("intent %+v", i)
			}
		}
		next := s.claim("k", dedup.Acquired)
		s.by(next, dedup.Dispatch, dedup.Fenced, charge)
		s.by(next, dedup.Dispatch, dedup.Done, sms)
		for _, i := range s.record(c.key).Intents {
			if i.Effect == "sms" && i.EffectRun != 1 {
				s.Errorf("the effect's run was lost: %+v", i)
			}
		}
	}},
}

package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

func TestAMessageThatNobodyCanReadStaysOneIncidentAndIsHeldAtTheThirdDeath(t *testing.T) {
	for _, target := range []string{"retry", "source"} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, 1)
			r.run(new(counter).route())
			r.broker.Produce(topic, brokers.Outgoing{
				Key: []byte("k"), Value: []byte("{garbage"), Headers: []brokers.Header{{Key: "traceparent", Value: []byte("00-1-2-01")}, {Key: "x", Value: nil}},
			})
			pass(time.Minute)
			s, first := r.resender("job"), r.letter(1)
			if target == "source" {
				s.target = topic
			}
			of := decoded(t, first)
			if n := s.note(of.ID); n.Run != 1 || of.Run != 1 {
				t.Errorf("the first death is told as %+v, and as run %d", n, of.Run)
			}
			for round, want := range []dedup.LetterState{dedup.LetterOpen, dedup.LetterHeld, dedup.LetterHeld} {
				if s.note(of.ID).State == dedup.LetterHeld { // a person approves
					if a, err := r.store.Apply(t.Context(), []dedup.Op{{Kind: dedup.MoveLetter, Key: s.note(of.ID).Key, Letter: &dedup.LetterOp{
						Letter: dedup.Letter{ID: of.ID, Who: "ann", Why: "looked"}, From: dedup.LetterHeld, To: dedup.LetterOpen,
					}}}); err != nil || a[0].Kind != dedup.Done {
						t.Fatal(a, err)
					}
				}
				s.resend(r.letter(round + 1))
				pass(time.Minute)
				m := r.letter(round + 2)
				s.want(m, want, dedup.Absent)
				l := decoded(t, m)
				if l.ID != of.ID || int(l.Run) != round+2 || l.ReplayCount != round+1 || l.ReplayJob != "job" || l.Source != of.Source {
					t.Errorf("death %d is told as %+v, the first was %+v", round+2, l, of)
				}
				if n := s.note(of.ID); int(n.Run) != round+2 || n.Source.Offset != of.Source.Offset || !n.Time.Equal(of.Source.Time) {
					t.Errorf("death %d is noted as %+v", round+2, n)
				}
				// Nothing but numbers of one digit and the time of death differ.
				if a, b := headersSize(first), headersSize(m); round > 0 && b != headersSize(r.broker.Letters("billing", topic)[1]) {
					t.Errorf("headers grow from %d to %d bytes", a, b)
				}
			}
			if string(r.letter(4).Value) != "{garbage" || header(r.letter(4), "traceparent") != "00-1-2-01" {
				t.Errorf("the last letter is %+v", r.letter(4))
			}
			r.wantUnsettled(0)
			r.end()
		})
	}
}

// Its death was noted, and the ack is lost with the process.
func TestARepeatOfADeadCopyOpensNoSecondLetter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.run(new(counter).route())
		r.send("{garbage")
		pass(time.Minute)
		s, first := r.resender("job"), r.letter(1)
		copied := s.take(first)
		s.publish(copied)
		s.noted(first)
		pass(time.Minute)
		s.want(first, dedup.LetterOpen, dedup.Absent)
		was := s.note(header(first, "dl-id"))
		s.publish(copied) // delivered again
		pass(time.Minute)
		if now := s.note(header(first, "dl-id")); now != was {
			t.Errorf("the repeat changes the letter from %+v to %+v", was, now)
		}
		s.resend(r.letter(2)) // and once more, behind the next copy
		pass(time.Minute)
		s.want(first, dedup.LetterHeld, dedup.Absent)
		was = s.note(header(first, "dl-id"))
		s.publish(copied)
		pass(time.Minute)
		if now := s.note(header(first, "dl-id")); now != was {
			t.Errorf("the late repeat changes the letter from %+v to %+v", was, now)
		}
		for i, m := range r.broker.Letters("billing", topic) {
			if l := decoded(t, m); l.ID != header(first, "dl-id") || int(l.Run) != i+1 {
				t.Errorf("letter %d is %q of run %d", i, l.ID, l.Run)
			}
		}
		if n := len(r.broker.Waiting("billing", topic)); n != 0 {
			t.Errorf("%d copies are unsettled", n)
		}
		r.end()
	})
}

func TestAMessageThatCanBeReadAtLastIsHandledAndItsLetterResolved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var h mendable
		broken := h.route()
		broken.Decode = func(*consumer.Delivery) (any, error) { return nil, errors.New("unknown field") }
		r.run(broken)
		r.send(orderJSON("o-0", 1), orderJSON("o-1", 1))
		pass(time.Minute)
		r.end()
		letters := r.broker.Letters("billing", topic)
		s := r.resender("job-1")
		of := decoded(t, letters[1])
		h.then(func(ctx context.Context) error {
			if at := consumer.Info(ctx); at.Partition != of.Source.Partition || at.Offset != of.Source.Offset || at.Topic != topic {
				t.Errorf("the handler is told %+v, the message was published at %+v", at, of.Source)
			}
			return nil
		})
		r.run(h.route())
		s.resend(letters[1])
		pass(time.Minute)
		s.want(letters[1], dedup.LetterResolved, dedup.Succeeded)
		key := dedup.Key{Consumer: "billing", Scope: "order.create", ID: "o-1"}
		records, err := r.store.Lookup(t.Context(), []dedup.Key{key})
		if err != nil {
			t.Fatal(err)
		}
		if rec := records[0]; rec.State != dedup.Succeeded || rec.Source.Offset != of.Source.Offset || rec.Source.Source != of.Source.Identity {
			t.Errorf("record %+v, want the source of %+v", rec, of.Source)
		}
		if h.total() != 1 {
			t.Errorf("runs %v", h.runs)
		}
		r.wantUnsettled(0)
		r.end()
	})
}

// The window is over: only the token of a letter that was sent although it had
// expired lets it run.
func TestTheTokenOfALetterLetsItsCopyRunWhenItIsTooOld(t *testing.T) {
	for _, how := range []string{"accepted", "freed", "not accepted"} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, 1)
			var h mendable
			route := h.route()
			route.Window = time.Hour
			broken := route
			broken.Decode = func(*consumer.Delivery) (any, error) { return nil, errors.New("unknown field") }
			r.run(broken)
			r.send(orderJSON("o-1", 1))
			pass(3 * time.Hour)
			r.end()
			s, first := r.resender("job-1"), r.letter(1)
			s.expired = how != "not accepted"
			copied := s.take(first)
			r.run(route)
			pass(time.Minute)
			store := r.store
			if how == "freed" { // it is freed while the copy is on its way, after the receiver has looked
				r.end()
				free := &afterLetters{Store: store, then: func() {
					if _, err := store.Apply(t.Context(), []dedup.Op{{Kind: dedup.MoveLetter, Key: dedup.LetterKey("billing", header(first, "dl-id")), Letter: &dedup.LetterOp{
						Letter: dedup.Letter{ID: header(first, "dl-id"), Who: "ann"}, From: dedup.LetterOpen, To: dedup.LetterOpen,
					}}}); err != nil {
						t.Error(err)
					}
				}}
				r.cfg.Store = free
				r.run(route)
			}
			s.publish(copied)
			pass(time.Minute)
			switch how {
			case "accepted":
				s.want(first, dedup.LetterResolved, dedup.Succeeded)
				r.wantReasons("decode")
			case "freed":
				s.want(first, dedup.LetterOpen, dedup.Absent)
				r.wantReasons("decode", "too-old")
			default:
				s.want(first, dedup.LetterResolved, dedup.Failed)
				r.wantReasons("decode", "too-old")
			}
			if want := map[string]int{"accepted": 1}[how]; h.of("o-1") != want {
				t.Errorf("%d runs, want %d", h.of("o-1"), want)
			}
			r.end()
		})
	}
}

// Its letter is young; its message, which may have been done and forgotten, is
// not.
func TestTheCopyOfWhatDiedOfItsAgeRunsOnlyWhenSomebodySaysThatItMay(t *testing.T) {
	for _, expired := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, 1)
			var h mendable
			route := h.route()
			route.Window = time.Hour
			r.run(route)
			pass(time.Minute)
			r.end()
			s := r.resender("job-1")
			r.broker.Produce(s.target, brokers.Outgoing{Value: []byte(orderJSON("o-1", 1))}) // a copy of which there is no record
			pass(3 * time.Hour)
			r.run(route)
			pass(time.Minute)
			r.wantReasons("too-old")
			s.expired = expired
			s.resend(r.letter(1))
			pass(time.Minute)
			if want := map[bool]int{true: 1}[expired]; h.of("o-1") != want {
				t.Errorf("accepted %v: %d runs, want %d", expired, h.of("o-1"), want)
			}
			r.end()
		})
	}
}

// The message could be read when it died first, and cannot be any more.
func TestALetterWithAKeyWhoseCopyCannotBeReadStaysItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var h mendable
		r.die(&h, orderJSON("o-1", 1))
		r.end()
		s, first := r.resender("job-1"), r.letter(1)
		broken := h.route()
		broken.Decode = func(*consumer.Delivery) (any, error) { return nil, errors.New("unknown field") }
		r.run(broken)
		s.resend(first)
		pass(time.Minute)
		s.want(first, dedup.LetterOpen, dedup.Absent)
		second := decoded(t, r.letter(2))
		if second.ID != decoded(t, first).ID || second.Run != 2 || second.Key.ID != "o-1" || second.Reason != deadletter.ReasonDecode {
			t.Errorf("second letter %+v", second)
		}
		r.end()
		h.fails(nil)
		r.run(h.route())
		s.job = "job-2"
		s.resend(r.letter(2))
		pass(time.Minute)
		s.want(first, dedup.LetterResolved, dedup.Succeeded)
		if h.of("o-1") != 2 {
			t.Errorf("%d runs", h.of("o-1"))
		}
		r.end()
	})
}

// It could not be read at first, and has no key now that it can.
func TestAMessageThatDiesOfSomethingElseIsTheSameIncident(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.run(new(counter).route())
		r.send("{garbage")
		pass(time.Minute)
		r.end()
		s, first := r.resender("job"), r.letter(1)
		lenient := new(counter).route()
		lenient.Decode = func(*consumer.Delivery) (any, error) { return order{}, nil }
		r.run(lenient)
		s.resend(first)
		pass(time.Minute)
		s.want(first, dedup.LetterOpen, dedup.Absent)
		second := decoded(t, r.letter(2))
		if second.ID != header(first, "dl-id") || second.Reason != deadletter.ReasonKey || second.Run != 2 {
			t.Errorf("second letter %+v", second)
		}
		r.end()
	})
}

// Kafka may repeat a copy whenever its partition moves, while another one waits
// before it: also when all that was recorded of it has expired.
func TestALateRepeatOfACopyDoesNotRunAgainAfterTheWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, 1)
		var h mendable
		route := h.route()
		route.Window = time.Hour
		broken := route
		broken.Decode = func(*consumer.Delivery) (any, error) { return nil, errors.New("unknown field") }
		r.run(broken)
		r.send(orderJSON("o-1", 1))
		pass(time.Minute)
		r.end()
		s, first := r.resender("job-1"), r.letter(1)
		slow := route
		slow.Scope, slow.Match = "order.slow", consumer.Match{Rule: "slow", Is: func(d *consumer.Delivery) bool { return bytes.Contains(d.Value, []byte("slow")) }}
		slow.Run = func(context.Context, *consumer.Delivery) (consumer.Result, error) {
			return nil, consumer.RetryAfter(errors.New("closed today"), 4*time.Hour)
		}
		r.run(slow, route)
		r.send(orderJSON("slow", 1)) // its copy is the first in the retry topic, and waits there
		pass(time.Minute)
		s.resend(first)
		pass(3 * time.Hour)
		if n := s.note(header(first, "dl-id")); n.State != dedup.LetterNone {
			t.Fatalf("letter %+v", n)
		}
		records, err := r.store.Lookup(t.Context(), []dedup.Key{{Consumer: "billing", Scope: "order.create", ID: "o-1"}})
		if err != nil || records[0].State != dedup.Absent {
			t.Fatalf("record %+v %v", records[0], err)
		}
		r.broker.Lose("billing", s.target)
		pass(time.Minute)
		if h.of("o-1") != 1 {
			t.Errorf("%d runs", h.of("o-1"))
		}
		r.wantReasons("decode", "too-old")
		r.end()
	})
}

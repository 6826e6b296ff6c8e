package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

var invoice = dedup.Key{Scope: "invoice.send", ID: "42"}

type receipt struct{ Number int }

func newGuard(s dedup.Store) *dedup.Guard { return &dedup.Guard{Store: s, Consumer: "mailer"} }

func TestAHundredCallersGetTheFirstResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(dedup.NewBatcher(memstore.New(), 0))
		var runs, replayed atomic.Int32
		start := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				r, e, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (receipt, error) {
					time.Sleep(time.Second)
					return receipt{Number: int(runs.Add(1))}, nil
				})
				if err != nil || r.Number != 1 {
					t.Errorf("%+v, %v", r, err)
				}
				if e.Replayed {
					replayed.Add(1)
				}
			})
		}
		wg.Wait()
		if runs.Load() != 1 || replayed.Load() != 99 {
			t.Errorf("%d runs, %d replayed", runs.Load(), replayed.Load())
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("callers of the same process waited %v", took)
		}
	})
}

func TestACallWaitsForOneInAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		go func() {
			_, _, _ = dedup.Do(t.Context(), newGuard(s), invoice, func(context.Context) (int, error) {
				time.Sleep(time.Minute) // two leases: it is renewed
				return 7, nil
			})
		}()
		synctest.Wait()
		start := time.Now()
		v, e, err := dedup.Do(t.Context(), newGuard(s), invoice, func(context.Context) (int, error) {
			t.Error("ran beside the first")
			return 0, nil
		})
		if v != 7 || !e.Replayed || err != nil {
			t.Errorf("%d, %+v, %v", v, e, err)
		}
		if took := time.Since(start); took > time.Minute+5*time.Second {
			t.Errorf("noticed after %v", took)
		}
	})
}

func TestWaitingEndsWithTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(memstore.New())
		go func() {
			_, _, _ = dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) {
				time.Sleep(time.Minute)
				return 7, nil
			})
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := dedup.Do(ctx, g, invoice, unwanted(t)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited with %v", err)
		}
		hasty := newGuard(g.Store)
		hasty.NoWait = true
		_, _, err := dedup.Do(t.Context(), hasty, invoice, unwanted(t))
		var busy *dedup.BusyError
		if !errors.Is(err, dedup.ErrBusy) || !errors.As(err, &busy) || busy.Wait <= 0 || busy.Wait > dedup.DefaultLease {
			t.Errorf("did not wait with %v", err)
		}
		time.Sleep(time.Minute)
	})
}

func unwanted(t *testing.T) func(context.Context) (int, error) {
	t.Helper()
	return func(context.Context) (int, error) {
		t.Error("ran")
		return 0, nil
	}
}

func TestAnErrorLetsTheNextCallTryAgain(t *testing.T) {
	g := newGuard(memstore.New())
	down := errors.New("mail server is down")
	for n := range 2 {
		_, e, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) { return 0, down })
		if !errors.Is(err, down) || e.Replayed || e.Failures != uint32(n) {
			t.Errorf("call %d: %+v, %v", n, e, err)
		}
	}
	v, e, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) { return 7, nil })
	if v != 7 || e.Replayed || err != nil {
		t.Errorf("%d, %+v, %v", v, e, err)
	}
}

func TestAFinalErrorIsEverybodysAnswer(t *testing.T) {
	g := newGuard(memstore.New())
	g.Redact = func(err error) string { return strings.ReplaceAll(err.Error(), "secret", "***") }
	refused := errors.New("no such address: secret")
	_, _, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) {
		return 0, fmt.Errorf("send: %w", dedup.Final(refused))
	})
	if !errors.Is(err, refused) {
		t.Errorf("first: %v", err)
	}
	_, e, err := dedup.Do(t.Context(), g, invoice, unwanted(t))
	var failed *dedup.FailedError
	if !errors.As(err, &failed) || failed.Reason != "terminal" || failed.Text != "send: no such address: ***" || !e.Replayed {
		t.Errorf("second: %+v, %v", e, err)
	}
}

func TestFailuresAreBounded(t *testing.T) {
	g := newGuard(memstore.New())
	g.Failures = 3
	runs := 0
	var err error
	for range 5 {
		_, _, err = dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) {
			runs++
			return 0, fmt.Errorf("down, run %d", runs)
		})
	}
	var failed *dedup.FailedError
	if runs != 3 || !errors.As(err, &failed) || failed.Reason != "exhausted" || failed.Text != "down, run 3" {
		t.Errorf("%d runs, %v", runs, err)
	}
}

func TestAPanicIsAFailure(t *testing.T) {
	g := newGuard(memstore.New())
	_, _, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) { panic("boom") })
	var p *dedup.PanicError
	if !errors.As(err, &p) || p.Value != "boom" || !strings.Contains(string(p.Stack), "do_test.go") {
		t.Errorf("first: %v", err)
	}
	_, e, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) { return 7, nil })
	if err != nil || e.Failures != 1 {
		t.Errorf("second: %+v, %v", e, err)
	}
}

func TestAFunctionThatEndsItsGoroutineHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(memstore.New())
		fake := &testing.T{}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _, _ = dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) {
				fake.FailNow()
				return 0, nil
			})
		})
		wg.Wait()
		if _, e, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) { return 7, nil }); err != nil || e.Failures != 1 {
			t.Errorf("second: %+v, %v", e, err)
		}
	})
}

func TestACallerThatGivesUpIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(memstore.New())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := dedup.Do(ctx, g, invoice, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("first: %v", err)
		}
		_, e, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) { return 7, nil })
		if err != nil || e.Failures != 0 || e.Replayed {
			t.Errorf("second: %+v, %v", e, err)
		}
	})
}

func TestAFunctionThatRunsTooLongIsToldAndHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(memstore.New())
		_, _, err := dedup.Do(t.Context(), g, invoice, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})
		if !errors.Is(err, dedup.ErrTimeout) {
			t.Errorf("first: %v", err)
		}
		if _, e, _ := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) { return 7, nil }); e.Failures != 1 {
			t.Errorf("second: %+v", e)
		}
	})
}

// cutOff is a store that can be out of reach.
type cutOff struct {
	dedup.Store
	out atomic.Bool
}

var errUnreachable = errors.New("connection refused")

func (s *cutOff) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	if s.out.Load() {
		return nil, errUnreachable
	}
	return s.Store.Apply(ctx, ops)
}

func TestALostLeaseIsToldBeforeAnybodyElseCanRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		mine := &cutOff{Store: s}
		var told time.Duration
		var cause error
		start := time.Now()
		_, _, err := dedup.Do(t.Context(), newGuard(mine), invoice, func(ctx context.Context) (int, error) {
			mine.out.Store(true)
			<-ctx.Done()
			told, cause = time.Since(start), context.Cause(ctx)
			mine.out.Store(false)
			return 0, ctx.Err()
		})
		if !errors.Is(cause, dedup.ErrLeaseLost) || told >= dedup.DefaultLease || told < dedup.DefaultLease/2 {
			t.Errorf("told after %v: %v", told, cause)
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("answer %v", err)
		}
		if r, _ := s.Lookup(t.Context(), []dedup.Key{{Consumer: "mailer", Scope: invoice.Scope, ID: invoice.ID}}); r[0].State != dedup.Retryable || r[0].Failures != 0 {
			t.Errorf("record %+v", r[0])
		}
	})
}

func TestAFunctionThatIsOvertakenSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		mine := &cutOff{Store: s}
		v, _, err := dedup.Do(t.Context(), newGuard(mine), invoice, func(context.Context) (int, error) {
			mine.out.Store(true)
			time.Sleep(2 * dedup.DefaultLease) // ignores its context
			if v, _, err := dedup.Do(t.Context(), newGuard(s), invoice, func(context.Context) (int, error) { return 8, nil }); v != 8 || err != nil {
				t.Errorf("successor: %d, %v", v, err)
			}
			mine.out.Store(false)
			return 7, nil
		})
		if v != 7 || !errors.Is(err, dedup.ErrSuperseded) {
			t.Errorf("%d, %v", v, err)
		}
		if v, _, err := dedup.Do(t.Context(), newGuard(s), invoice, unwanted(t)); v != 8 || err != nil {
			t.Errorf("on record: %d, %v", v, err)
		}
	})
}

func TestAnOutcomeIsWrittenWhenTheStoreReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &cutOff{Store: memstore.New()}
		v, _, err := dedup.Do(t.Context(), newGuard(s), invoice, func(context.Context) (int, error) {
			s.out.Store(true)
			time.AfterFunc(20*time.Second, func() { s.out.Store(false) })
			return 7, nil
		})
		if v != 7 || err != nil {
			t.Errorf("back in time: %d, %v", v, err)
		}
		other := dedup.Key{Scope: invoice.Scope, ID: "43"}
		v, _, err = dedup.Do(t.Context(), newGuard(s), other, func(context.Context) (int, error) {
			s.out.Store(true)
			return 7, nil
		})
		if v != 7 || !errors.Is(err, dedup.ErrUnrecorded) || !errors.Is(err, errUnreachable) {
			t.Errorf("never back: %d, %v", v, err)
		}
	})
}

func TestAnotherPayloadIsAConflict(t *testing.T) {
	g := newGuard(memstore.New())
	if _, _, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) { return 7, nil }, dedup.Payload([]byte("a"))); err != nil {
		t.Error(err)
	}
	if _, _, err := dedup.Do(t.Context(), g, invoice, unwanted(t), dedup.Payload([]byte("b"))); !errors.Is(err, dedup.ErrConflict) {
		t.Errorf("other payload: %v", err)
	}
	if v, _, err := dedup.Do(t.Context(), g, invoice, unwanted(t), dedup.Payload([]byte("a"))); v != 7 || err != nil {
		t.Errorf("same payload: %d, %v", v, err)
	}
}

func TestAResultThatCannotBeKeptIsSaid(t *testing.T) {
	g := newGuard(memstore.New())
	v, e, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (string, error) {
		return strings.Repeat("x", dedup.MaxResult), nil
	})
	if len(v) != dedup.MaxResult || e.Unkept == nil || err != nil {
		t.Errorf("first: %d bytes, %v, %v", len(v), e.Unkept, err)
	}
	if _, e, err := dedup.Do(t.Context(), g, invoice, unwanted(t)); !errors.Is(err, dedup.ErrUnkept) || !e.Replayed {
		t.Errorf("second: %+v, %v", e, err)
	}
	other := dedup.Key{Scope: invoice.Scope, ID: "43"}
	if _, e, err := dedup.Do(t.Context(), g, other, func(context.Context) (chan int, error) { return nil, nil }); e.Unkept == nil || err != nil {
		t.Errorf("no JSON: %v, %v", e.Unkept, err)
	}
}

func TestWorkIsWrittenWithTheResult(t *testing.T) {
	g := newGuard(memstore.New())
	var rows []string
	book := func(row string, fail error) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			return 7, dedup.Enlist(ctx, func() error {
				if fail == nil {
					rows = append(rows, row)
				}
				return fail
			})
		}
	}
	broken := errors.New("no such account")
	if _, _, err := dedup.Do(t.Context(), g, invoice, book("first", broken)); !errors.Is(err, broken) {
		t.Errorf("work that fails: %v", err)
	}
	if _, e, err := dedup.Do(t.Context(), g, invoice, book("second", nil)); err != nil || e.Failures != 1 {
		t.Errorf("after it: %+v, %v", e, err)
	}
	if fmt.Sprint(rows) != "[second]" {
		t.Errorf("rows %v", rows)
	}
}

func TestDoubtIsHeld(t *testing.T) {
	g := newGuard(memstore.New())
	g.Classify = func(error) dedup.Outcome { return dedup.Doubt }
	late := errors.New("timeout at the bank")
	if _, _, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) { return 0, late }); !errors.Is(err, late) {
		t.Errorf("first: %v", err)
	}
	if _, _, err := dedup.Do(t.Context(), g, invoice, unwanted(t)); !errors.Is(err, dedup.ErrInDoubt) {
		t.Errorf("second: %v", err)
	}
}

func TestAFailedKeyOfAGuardIsSweptWithItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(memstore.New())
		if _, _, err := dedup.Do(t.Context(), g, invoice, func(context.Context) (int, error) { return 0, dedup.Final(errors.New("no")) }); err == nil {
			t.Error("did not fail")
		}
		time.Sleep(dedup.DefaultWindow)
		if swept, err := g.Store.Sweep(t.Context(), 10); swept.Records != 1 || err != nil {
			t.Errorf("swept %+v, %v", swept, err)
		}
	})
}

func TestAKeyThatIsNoneRunsNothing(t *testing.T) {
	if _, _, err := dedup.Do(t.Context(), newGuard(memstore.New()), dedup.Key{Scope: "s"}, unwanted(t)); !errors.Is(err, dedup.ErrEmptyID) {
		t.Errorf("answer %v", err)
	}
}

func BenchmarkDo(b *testing.B) {
	g := newGuard(memstore.New())
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		key := dedup.Key{Scope: "invoice.send", ID: fmt.Sprint(i)}
		if _, _, err := dedup.Do(context.Background(), g, key, func(context.Context) (int, error) { return 7, nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func TestATextThatIsCutKeepsWholeRunes(t *testing.T) {
	g := newGuard(memstore.New())
	for lead := range 4 {
		key := dedup.Key{Scope: "invoice.send", ID: fmt.Sprint(lead)}
		text := strings.Repeat("x", lead) + strings.Repeat("€", dedup.MaxError)
		refuse := func(context.Context) (int, error) { return 0, dedup.Final(errors.New(text)) }
		_, _, _ = dedup.Do(t.Context(), g, key, refuse)
		_, _, err := dedup.Do(t.Context(), g, key, refuse)
		failed, recorded := errors.AsType[*dedup.FailedError](err)
		if !recorded {
			t.Fatal(err)
		}
		if n := len(failed.Text); !utf8.ValidString(failed.Text) || n > dedup.MaxError || n < dedup.MaxError-2 {
			t.Errorf("%d bytes are kept, valid %v", n, utf8.ValidString(failed.Text))
		}
	}
}

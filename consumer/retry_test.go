package consumer

import (
	"testing"
	"time"
)

func checkedRetry(t *testing.T, r Retry) Retry {
	t.Helper()
	var f faults
	r.check(&f, "")
	if len(f) > 0 {
		t.Fatal(f)
	}
	return r
}

func TestDelaysDoubleUpToTheMaximum(t *testing.T) {
	r := checkedRetry(t, Retry{NoJitter: true})
	for i, millis := range []int{500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000} {
		if got, want := r.delay(i+1, 0), time.Duration(millis)*time.Millisecond; got != want {
			t.Errorf("after failure %d: %v, want %v", i+1, got, want)
		}
	}
	if got := r.delay(1_000_000, 0); got != 5*time.Minute {
		t.Errorf("got %v", got)
	}
	if got := r.delay(0, 0); got != 500*time.Millisecond {
		t.Errorf("got %v", got)
	}
}

func TestJitterSpreadsDelaysAndNeverPassesTheMaximum(t *testing.T) {
	r := checkedRetry(t, Retry{Initial: time.Second, Max: 10 * time.Second})
	for _, c := range []struct {
		failures  int
		low, high time.Duration
	}{{1, 500 * time.Millisecond, 1500 * time.Millisecond}, {2, time.Second, 3 * time.Second}, {50, 3333 * time.Millisecond, 10 * time.Second}} {
		seen := map[time.Duration]bool{}
		for range 1000 {
			d := r.delay(c.failures, 0)
			if d < c.low || d > c.high {
				t.Fatalf("after failure %d: %v is not within %v and %v", c.failures, d, c.low, c.high)
			}
			seen[d] = true
		}
		if len(seen) < 900 {
			t.Errorf("after failure %d: only %d different delays of 1,000", c.failures, len(seen))
		}
	}
}

func TestADelayThatTheHandlerAskedForIsUsedAsItIs(t *testing.T) {
	r := checkedRetry(t, Retry{})
	if got := r.delay(3, 2*time.Hour); got != 2*time.Hour {
		t.Errorf("got %v", got)
	}
	if got := r.delay(3, 48*time.Hour); got != MaxRetryAfter {
		t.Errorf("got %v", got)
	}
	if got := r.longest(); got != MaxRetryAfter {
		t.Errorf("got %v", got)
	}
}

func TestTheSumOfWaitsIsNotExceeded(t *testing.T) {
	for _, r := range []Retry{{}, {NoJitter: true}, {MaxFailures: 1}, {MaxFailures: 10_000, Max: time.Second}, {Multiplier: 1, MaxFailures: 100}} {
		r = checkedRetry(t, r)
		bound := r.waits()
		var sum time.Duration
		for n := 1; n < r.MaxFailures; n++ {
			sum += r.delay(n, 0)
		}
		if sum > bound || sum < bound/4 {
			t.Errorf("%+v waits %v, said to be at most %v", r, sum, bound)
		}
	}
}

func BenchmarkDelay(b *testing.B) {
	r := Retry{Initial: time.Second, Multiplier: 2, Max: time.Minute, Jitter: 0.5}
	b.ReportAllocs()
	for b.Loop() {
		r.delay(5, 0)
	}
}

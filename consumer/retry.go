package consumer

import (
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// MaxRetryAfter is the longest delay that [RetryAfter] is granted: brokers
// keep waiting copies for a limited time only, and must keep them longer.
const MaxRetryAfter = 24 * time.Hour

// delay is how long to wait after the failures-th failure (1 for the first).
// A delay that the handler asked for replaces the schedule. What is returned is
// what must be reported and waited: asking again gives another jitter.
func (r *Retry) delay(failures int, after time.Duration) time.Duration {
	if after > 0 {
		return min(after, MaxRetryAfter)
	}
	jitter := r.Jitter
	if r.NoJitter {
		jitter = 0
	}
	// The library lets jitter pass the maximum. Bounding the middle instead
	// keeps delays spread at the maximum, where many messages meet.
	middle := min(r.interval(failures), time.Duration(float64(r.Max)/(1+jitter)))
	schedule := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(middle),
		backoff.WithRandomizationFactor(jitter),
		backoff.WithMultiplier(1),
		backoff.WithMaxInterval(r.Max),
		backoff.WithMaxElapsedTime(0), // attempts are bounded, not time
	)
	return max(0, min(schedule.NextBackOff(), r.Max))
}

// interval is the delay after the failures-th failure before jitter.
func (r *Retry) interval(failures int) time.Duration {
	d := float64(r.Initial) * math.Pow(r.Multiplier, float64(max(failures, 1)-1))
	if !(d < float64(r.Max)) {
		return r.Max
	}
	return time.Duration(d)
}

// waits is the longest that all delays of the schedule can take together.
func (r *Retry) waits() time.Duration {
	var sum time.Duration
	for n := 1; n < r.MaxFailures && n < 10_000; n++ {
		d := r.interval(n)
		if !r.NoJitter {
			d = time.Duration(math.Min(float64(d)*(1+r.Jitter), float64(r.Max)))
		}
		if sum += d; sum > maxWindow {
			return maxWindow
		}
		if d == r.Max {
			left := float64(r.MaxFailures - 1 - n)
			return time.Duration(math.Min(float64(sum)+left*float64(r.Max), float64(maxWindow)))
		}
	}
	return sum
}

// longest is the longest delay that [Retry.delay] can return.
func (r *Retry) longest() time.Duration { return max(r.Max, MaxRetryAfter) }

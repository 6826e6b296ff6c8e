package consumer

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"
)

func testBreaker(t *testing.T, b Breaker, workers int) *breaker {
	t.Helper()
	var f faults
	b.check(&f)
	if len(f) > 0 {
		t.Fatal(f)
	}
	return newBreaker(b, workers)
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// once runs one attempt from its start to its end.
func once(b *breaker, key uint64, failures int, p proof, at time.Time) bool {
	return b.record(b.start(), key, failures, p, at)
}

// outage is a run of a consumer over fake time: workers that start what is
// due, a dependency that is dead for a while, and messages that retry.
type outage struct {
	b         *breaker
	r         Retry
	rng       *rand.Rand
	workers   int
	takes     func(at time.Time) time.Duration
	up        func(at time.Time) bool
	poisoned  func(key int) bool
	gap       time.Duration // between new messages; 0: all at once
	now       time.Time
	running   simEvents
	due       simEvents
	counted   []int
	done      []bool
	left      int
	exhausted int
	attempts  int
}

type simEvent struct {
	at    time.Time
	key   int
	epoch attemptEpoch
}

type simEvents []simEvent

func (h simEvents) Len() int           { return len(h) }
func (h simEvents) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h simEvents) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *simEvents) Push(x any)        { *h = append(*h, x.(simEvent)) }
func (h *simEvents) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// run goes on until every message is done or dead, or until the end.
func (s *outage) run(messages int, until time.Time) {
	s.counted, s.done, s.left = make([]int, messages), make([]bool, messages), messages
	s.rng = rand.New(rand.NewPCG(1, 2))
	for key := range messages {
		s.due = append(s.due, simEvent{at: s.now.Add(time.Duration(key) * s.gap), key: key})
	}
	heap.Init(&s.due)
	for s.left > 0 && s.now.Before(until) {
		s.startDue()
		s.advance()
	}
}

func (s *outage) startDue() {
	for len(s.due) > 0 && !s.due[0].at.After(s.now) && len(s.running) < s.workers {
		if more, _ := s.b.admit(s.now); more <= 0 {
			return
		}
		e := heap.Pop(&s.due).(simEvent)
		e.epoch = s.b.start()
		s.attempts++
		e.at = s.now.Add(s.takes(s.now))
		heap.Push(&s.running, e)
	}
}

func (s *outage) advance() {
	next := s.now.Add(time.Hour)
	if _, wait := s.b.admit(s.now); wait > 0 {
		next = s.now.Add(wait)
	}
	if len(s.running) > 0 && s.running[0].at.Before(next) {
		next = s.running[0].at
	}
	if len(s.due) > 0 && s.due[0].at.After(s.now) && s.due[0].at.Before(next) {
		next = s.due[0].at
	}
	s.now = next
	for len(s.running) > 0 && !s.running[0].at.After(s.now) {
		s.finish(heap.Pop(&s.running).(simEvent))
	}
}

func (s *outage) finish(e simEvent) {
	if s.up(s.now) && !s.poisoned(e.key) {
		s.b.record(e.epoch, uint64(e.key)+1, s.counted[e.key], provesUp, s.now)
		s.done[e.key] = true
		s.left--
		return
	}
	if s.b.record(e.epoch, uint64(e.key)+1, s.counted[e.key], provesDown, s.now) {
		if s.counted[e.key]++; s.counted[e.key] >= s.r.MaxFailures {
			s.exhausted++
			s.left--
			return
		}
	}
	e.at = s.now.Add(s.r.delay(s.counted[e.key]+1, 0))
	heap.Push(&s.due, e)
}

func TestAnOutageUsesUpNoMessageAndIsRecoveredFrom(t *testing.T) {
	const dead = 20 * time.Minute
	healthy := func(time.Time) time.Duration { return 2 * time.Millisecond }
	quick := Retry{MaxFailures: 3, Initial: 50 * time.Millisecond, Multiplier: 1, Max: 50 * time.Millisecond, NoJitter: true}
	usual := Retry{MaxFailures: 10, Initial: 500 * time.Millisecond, Multiplier: 2, Max: 5 * time.Minute, Jitter: 0.5}
	for _, c := range []struct {
		name     string
		workers  int
		messages int
		takes    func(time.Time) time.Duration
		r        Retry
		poison   int           // one of so many always fails
		gap      time.Duration // between messages
		letters  int
	}{
		{name: "64 workers", workers: 64, messages: 100_000, takes: healthy, r: quick},
		{name: "16 workers", workers: 16, messages: 20_000, takes: healthy, r: quick},
		{name: "slow failures", workers: 64, messages: 20_000, r: quick, takes: func(at time.Time) time.Duration {
			if at.Before(noon.Add(dead)) {
				return 5 * time.Second
			}
			return 2 * time.Millisecond
		}},
		{name: "one in a hundred is poisoned", workers: 64, messages: 20_000, takes: healthy, r: quick, poison: 100, letters: 200},
		{name: "a quiet topic with poison", workers: 16, messages: 6_000, takes: healthy, r: usual, poison: 100, gap: time.Second, letters: 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := outage{
				b: testBreaker(t, Breaker{}, c.workers), r: c.r, workers: c.workers, takes: c.takes, now: noon, gap: c.gap,
				up: func(at time.Time) bool {
					return at.Before(noon.Add(100*time.Millisecond)) || !at.Before(noon.Add(dead))
				},
				poisoned: func(key int) bool { return c.poison > 0 && key%c.poison == c.poison/2 },
			}
			s.run(c.messages, noon.Add(4*time.Hour))
			if s.left > 0 {
				t.Fatalf("%d messages are left four hours later", s.left)
			}
			if s.exhausted != c.letters {
				t.Errorf("%d letters, want %d", s.exhausted, c.letters)
			}
			for key, n := range s.counted {
				if n >= c.r.MaxFailures && !s.poisoned(key) {
					t.Fatalf("message %d has %d counted failures", key, n)
				}
			}
			t.Logf("done %v after the outage, %d attempts", s.now.Sub(noon.Add(dead)), s.attempts)
		})
	}
}

func TestOneKeyThatFailsForEverOpensNothing(t *testing.T) {
	b := testBreaker(t, Breaker{}, 16)
	for n := range 10_000 {
		if !once(b, 7, n, provesDown, noon) {
			t.Fatalf("failure %d did not count", n)
		}
	}
	// Also when its failures are not known, as after each restart.
	for range 10_000 {
		if !once(b, 7, 0, provesDown, noon) {
			t.Fatal("opened")
		}
	}
}

func TestFewKeysThatFailForEverOpenNothing(t *testing.T) {
	b := testBreaker(t, Breaker{}, 16)
	for n := range 1000 {
		for key := range uint64(50) {
			if n == 0 {
				// They came up among others that succeeded.
				for range 5 {
					once(b, 1000+key, 0, provesUp, noon)
				}
			}
			if !once(b, key, n, provesDown, noon) {
				t.Fatalf("round %d: opened", n)
			}
		}
	}
}

func TestTheFailureThatOpensItDoesNotCount(t *testing.T) {
	b := testBreaker(t, Breaker{}, 16)
	counted := 0
	for key := range uint64(100) {
		if once(b, key+1, 0, provesDown, noon) {
			counted++
		}
	}
	if counted != 9 {
		t.Errorf("%d failures counted, want 9: the tenth opens it", counted)
	}
	if state, since := b.status(); state != breakerOpen || since != noon {
		t.Errorf("%v since %v", state, since)
	}
}

func TestAShareOfRecentWorkOpensIt(t *testing.T) {
	b := testBreaker(t, Breaker{Share: 0.3}, 16)
	for i := range uint64(1000) {
		p := provesUp
		if i%2 == 0 {
			p = provesDown
		}
		if !once(b, i+1, 0, p, noon) {
			if state, _ := b.status(); state != breakerOpen {
				t.Fatalf("state %v", state)
			}
			return
		}
	}
	t.Fatal("half of 1,000 attempts failed and it is closed")
}

func TestProbesPauseLongerWhileTheyFail(t *testing.T) {
	b := testBreaker(t, Breaker{}, 64)
	for key := range uint64(10) {
		once(b, key+1, 0, provesDown, noon)
	}
	at := noon
	for i, pause := range []int{1, 2, 4, 8, 16, 30, 30} {
		at = at.Add(time.Duration(pause) * time.Second)
		if more, wait := b.admit(at.Add(-time.Millisecond)); more != 0 || wait != time.Millisecond {
			t.Fatalf("probe %d: %d may start 1 ms before the pause is over; wait %v", i, more, wait)
		}
		if more, _ := b.admit(at); more != 1 {
			t.Fatalf("probe %d: %d may start", i, more)
		}
		e := b.start()
		if more, _ := b.admit(at); more != 0 {
			t.Fatalf("probe %d: %d more may start beside it", i, more)
		}
		if b.record(e, uint64(i)+100, 0, provesDown, at) {
			t.Fatalf("probe %d counted", i)
		}
	}
}

func TestItGrowsByDoublingBeforeItCloses(t *testing.T) {
	b := testBreaker(t, Breaker{}, 8)
	late := b.start()
	for key := range uint64(10) {
		once(b, key+1, 0, provesDown, noon)
	}
	if b.record(late, 99, 0, provesUp, noon) {
		t.Error("an attempt from before the outage counts")
	}
	at := noon.Add(time.Second)
	for _, allowed := range []int{1, 2, 4, 8} {
		more, _ := b.admit(at)
		if more != allowed {
			t.Fatalf("%d may start, want %d", more, allowed)
		}
		var begun []attemptEpoch
		for range allowed {
			begun = append(begun, b.start())
		}
		for _, e := range begun {
			b.record(e, 1, 0, provesUp, at)
		}
	}
	if more, _ := b.admit(at); more < 1000 {
		t.Error("still limited")
	}
	if !once(b, 1, 0, provesDown, at) {
		t.Error("a failure after closing does not count")
	}
}

func TestAProbeThatProvesNothingFreesItsPlace(t *testing.T) {
	b := testBreaker(t, Breaker{}, 8)
	for key := range uint64(10) {
		once(b, key+1, 0, provesDown, noon)
	}
	at := noon.Add(time.Second)
	once(b, 1, 0, provesNothing, at)
	if more, _ := b.admit(at); more != 1 {
		t.Errorf("%d may start", more)
	}
}

func TestAHalfOpenBreakerClosesWhenNothingFailsForLong(t *testing.T) {
	b := testBreaker(t, Breaker{}, 64)
	for key := range uint64(10) {
		once(b, key+1, 0, provesDown, noon)
	}
	at := noon.Add(time.Second)
	once(b, 1, 0, provesUp, at)
	for i := range uint64(20) {
		// One poisoned message that comes again and again proves nothing.
		once(b, 5, 0, provesDown, at.Add(time.Duration(i)*time.Second))
	}
	if _, wait := b.admit(at.Add(maxProbe - time.Second)); wait != time.Second {
		t.Errorf("wait %v", wait)
	}
	if more, _ := b.admit(at.Add(maxProbe)); more < 1000 {
		t.Error("still limited")
	}
}

func TestABreakerThatIsOffCountsEverything(t *testing.T) {
	b := testBreaker(t, Breaker{Off: true}, 8)
	for key := range uint64(1000) {
		if !once(b, key+1, 0, provesDown, noon) {
			t.Fatal("a failure did not count")
		}
	}
	if more, _ := b.admit(noon); more < 1000 {
		t.Error("limited")
	}
}

// Ten messages failed and opened it, nine are somebody else's now, and the one
// that is left fails for a reason of its own, with healthy ones behind it: they
// would wait for ever, with nothing to show that all is well.
func TestFewKeysThatAreLeftToProbeWithCloseIt(t *testing.T) {
	for _, left := range []int{1, 2, 9, 10, 100} {
		b, now := testBreaker(t, Breaker{}, 16), noon
		for key := range uint64(10) {
			once(b, key+1, 0, provesDown, now)
		}
		if state, _ := b.status(); state != breakerOpen {
			t.Fatalf("state %v", state)
		}
		counted := false
		for n := 0; n < 200 && !counted; n++ {
			if more, wait := b.admit(now); more == 0 {
				now = now.Add(wait)
			}
			counted = once(b, uint64(n%left)+1, 0, provesDown, now)
		}
		if want := left < 10; counted != want {
			t.Errorf("with %d keys left a failure counts: %v", left, counted)
		}
		if took := now.Sub(noon); counted && (took < 5*time.Minute || took > 20*time.Minute) {
			t.Errorf("with %d keys left it closed after %v", left, took)
		}
	}
}

func BenchmarkBreaker(b *testing.B) {
	b.ReportAllocs()
	br := newBreaker(Breaker{Share: 0.5, MinKeys: 10, Recent: 100, Probe: time.Second}, 64)
	for b.Loop() {
		br.admit(noon)
		once(br, 1, 0, provesUp, noon)
	}
}

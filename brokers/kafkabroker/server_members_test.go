//go:build servers && linux

package kafkabroker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/dedup"
)

// position is where the group stood, as somebody outside was told at a time.
type position struct {
	at     time.Time
	offset int64
}

// company is members that come and go under load, and what is known of them.
type company struct {
	*theatre
	store *sharedStore
	here  []*process
	// paused and killed are by name, and kept after they have gone.
	paused map[string][]pause
	killed map[string]bool

	mu        sync.Mutex
	sent      map[int32]map[int64]string // the id at each offset of each partition
	kinds     map[string]string          // what each does
	positions map[int32][]position
	polls     int
	bursts    int
}

const companyPartitions = 12

func newCompany(t *testing.T) *company {
	t.Helper()
	c := &company{
		theatre: newTheatre(t, companyPartitions), paused: map[string][]pause{}, killed: map[string]bool{},
		sent: map[int32]map[int64]string{}, kinds: map[string]string{}, positions: map[int32][]position{},
	}
	c.store, c.cfg.Store = shareStore(t, socketDir(t))
	for p := range int32(companyPartitions) {
		c.sent[p] = map[int64]string{}
	}
	return c
}

// produce sends until ctx ends: one in five comes twice, in any two partitions.
func (c *company) produce(ctx context.Context) {
	var before []string
	for n := 0; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		var nos []string
		c.mu.Lock()
		for range 10 {
			no := fmt.Sprint("t-", n)
			switch {
			case rand.IntN(5) == 0 && len(before) > 0:
				no = before[rand.IntN(len(before))]
			default:
				n++
				c.kinds[no] = map[int]string{0: "hold", 1: "ignore", 2: "refuse", 3: "flaky"}[rand.IntN(50)]
				before = append(before[max(0, len(before)-500):], no)
			}
			nos = append(nos, no)
		}
		c.mu.Unlock()
		c.publish(nos, func(int) int32 { return rand.Int32N(companyPartitions) })
	}
}

// burst sends more slow work than there are workers, and quick work behind it.
func (c *company) burst() {
	var nos []string
	c.mu.Lock()
	for i := range 10 * companyPartitions {
		no := fmt.Sprint("burst-", c.bursts, "-", i)
		if i < 4*companyPartitions {
			c.kinds[no] = "ignore"
		} else {
			c.kinds[no] = "" // quick, behind the others
		}
		nos = append(nos, no)
	}
	c.bursts++
	c.mu.Unlock()
	c.publish(nos, func(i int) int32 { return int32(i % companyPartitions) })
}

// publish stores tasks and remembers where they are.
func (c *company) publish(nos []string, partition func(i int) int32) {
	var rs []*kgo.Record
	c.mu.Lock()
	for i, no := range nos {
		value, _ := json.Marshal(task{no, c.kinds[no]})
		rs = append(rs, &kgo.Record{Topic: c.cfg.Topic, Partition: partition(i), Value: value})
	}
	c.mu.Unlock()
	for _, r := range c.o.client.ProduceSync(context.Background(), rs...) {
		if r.Err != nil {
			c.t.Errorf("produce: %v", r.Err)
			continue
		}
		c.mu.Lock()
		c.sent[r.Record.Partition][r.Record.Offset] = nos[slices.Index(rs, r.Record)]
		c.mu.Unlock()
	}
}

// watch asks from outside where the group stands.
func (c *company) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if at, ok := c.o.tryPositions(c.t, c.cfg.Group, c.cfg.Topic, companyPartitions); ok {
			now := time.Now()
			c.polls++
			for p, offset := range at {
				before := c.positions[p]
				if len(before) > 0 && offset < before[len(before)-1].offset {
					c.t.Errorf("the position of partition %d went from %d to %d", p, before[len(before)-1].offset, offset)
				}
				if len(before) == 0 || before[len(before)-1].offset != offset {
					c.positions[p] = append(before, position{now, offset})
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// join waits until the new member works.
func (c *company) join() *process {
	c.t.Helper()
	p := c.enter(nil)
	c.here = append(c.here, p)
	works := func() bool {
		c.witness.mu.Lock()
		defer c.witness.mu.Unlock()
		return slices.ContainsFunc(c.witness.runs, func(r *handlerRun) bool { return r.Member == p.name })
	}
	// A partition comes when the session of one that died is over, and on a
	// busy machine a process takes its time to start.
	for end := time.Now().Add(2 * time.Minute); !works(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%s joins, and is given nothing", p.name)
		}
	}
	return p
}

// eldest is the one that is here for the longest, and goes now.
func (c *company) eldest() *process {
	p := c.here[0]
	c.here = c.here[1:]
	return p
}

func (c *company) kill() {
	p := c.eldest()
	c.killed[p.name] = true
	p.signal(c.t, syscall.SIGKILL)
	p.wait(c.t, 5*time.Second)
}

// stop pauses a process while all its workers have handlers that hear nothing
// of their contexts, and more waits for them. It returns the way to let it go on.
func (c *company) stop() (proceed func()) {
	c.t.Helper()
	p := c.eldest()
	var running []string
	full := func() bool {
		c.witness.mu.Lock()
		defer c.witness.mu.Unlock()
		c.mu.Lock()
		defer c.mu.Unlock()
		running = nil
		for _, r := range c.witness.open {
			if r.Member == p.name && c.kinds[r.No] == "ignore" && time.Since(r.began) < c.cfg.Hold*3/4 {
				running = append(running, r.No)
			}
		}
		return len(running) == memberWorkers
	}
	for began, next := time.Now(), time.Now(); !full(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > sized(5*time.Minute, 40*time.Second) {
			c.t.Fatal("never: " + p.name + " has its hands full")
		}
		if time.Now().After(next) { // what came before lies behind others' work, or is done by them
			c.burst()
			next = time.Now().Add(15 * time.Second)
		}
	}
	time.Sleep(c.cfg.Hold / 10) // more is claimed, and waits
	from := time.Now()
	p.signal(c.t, syscall.SIGSTOP)
	return func() {
		// What it was running is done by others meanwhile.
		eventually(c.t, "others take over from "+p.name, func() bool {
			c.store.mu.Lock()
			defer c.store.mu.Unlock()
			return !slices.ContainsFunc(running, func(no string) bool { return c.store.doneAt[no].IsZero() })
		})
		c.paused[p.name] = append(c.paused[p.name], pause{from, time.Now()})
		p.signal(c.t, syscall.SIGCONT)
		c.here = append(c.here, p)
	}
}

// stood says whether a process stood still meanwhile; the end is zero where
// there was none. The store is in this process: while it stands, all do.
// c.witness.mu is held.
func (c *company) stood(name string, from, to time.Time) bool {
	return slices.ContainsFunc(slices.Concat(c.paused[name], c.witness.stood[name], c.witness.stood[""]), func(p pause) bool { return p.overlaps(from, to) })
}

// excused says that a run may have repeated what another had completed: it was
// running when its process was paused. Where a busy machine was the cause, it
// is not known when: between its claim and its end.
func (c *company) excused(r *handlerRun) bool {
	const blur = 50 * time.Millisecond // from a handler's beginning until the test has heard of it
	if slices.ContainsFunc(c.paused[r.Member], func(p pause) bool {
		return r.began.Before(p.from.Add(blur)) && p.overlaps(r.began, r.ended)
	}) {
		return true
	}
	starved := slices.DeleteFunc(slices.Concat(c.witness.stood[r.Member], c.witness.stood[""]), func(p pause) bool {
		// The member tells of the test's own pauses, too.
		return slices.ContainsFunc(c.paused[r.Member], func(own pause) bool { return own.overlaps(p.from, p.to) })
	})
	from := c.store.claimed[claim{r.No, r.Fence}]
	return slices.ContainsFunc(starved, func(p pause) bool { return p.overlaps(from, r.ended) })
}

// check is what must hold, once all members have gone.
func (c *company) check() {
	c.t.Helper()
	w, s := c.witness, c.store
	w.mu.Lock()
	defer w.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := 0
	for no := range c.kinds {
		if s.settled[no].IsZero() {
			lost++
			c.t.Errorf("%s (%s) is lost", no, c.kinds[no])
		}
	}
	effects, repeated, reported := 0, 0, 0
	for _, r := range w.runs {
		if r.Effect {
			effects++
		}
		doneAt, done := s.doneAt[r.No], s.done[r.No]
		if done.fence == r.Fence || !r.began.After(doneAt) && !(r.Effect && r.ended.After(doneAt)) {
			// It completed the operation, or was over before that: the
			// operation was not completed yet, as after a kill.
			continue
		}
		repeated++
		if !c.excused(r) {
			c.t.Errorf("completed at %s with fence %d, and ran again: %v", doneAt.Format("15:04:05.000"), done.fence, r)
		}
		key := dedup.Key{Consumer: c.cfg.Group, Scope: "task.do", ID: r.No}.String()
		if w.superseded[Seen{Member: r.Member, No: r.No}] == 0 || w.logged[Seen{Member: r.Member, No: key}] == 0 {
			c.t.Errorf("a double execution was not reported: %v", r)
			continue
		}
		reported++
	}
	for seen := range w.superseded {
		if !c.stood(seen.Member, time.Time{}, time.Time{}) {
			c.t.Errorf("%s suspects a double execution of %s, and never stood still", seen.Member, seen.No)
		}
	}
	if len(w.superseded) == 0 {
		c.t.Error("no handler was overtaken: nothing was tried")
	}
	moves := c.checkPositions()
	messages := 0
	for _, m := range c.sent {
		messages += len(m)
	}
	c.t.Logf("%d messages of %d operations, %d members, %d killed, %d paused: lost %d, runs %d, effects %d; "+
		"%d ran beside or after another that completed it, %d of them reported; %d suspected in all; %d stood still; %d positions seen in %d looks",
		messages, len(c.kinds), c.members, len(c.killed), len(c.paused), lost, len(w.runs), effects, repeated, reported, len(w.superseded), len(w.stood), moves, c.polls)
}

// checkPositions: what lay below a position that somebody outside has seen was
// settled before.
func (c *company) checkPositions() (moves int) {
	for p, seen := range c.positions {
		below := int64(0)
		offsets := slices.Sorted(maps.Keys(c.sent[p]))
		for _, at := range seen {
			moves++
			for len(offsets) > 0 && offsets[0] < at.offset {
				no := c.sent[p][offsets[0]]
				if settled := c.store.settled[no]; settled.IsZero() || settled.After(at.at) {
					c.t.Errorf("partition %d stood at %d, and %s at %d was not finished", p, at.offset, no, offsets[0])
				}
				offsets = offsets[1:]
			}
			below = max(below, at.offset)
		}
	}
	return moves
}

// Full size with ONCEWARD_SOAK: processes stand still for two minutes.
func TestSoakMembersThatComeGoDieAndPauseLoseNothingAndRepeatNothingCompleted(t *testing.T) {
	c := newCompany(t)
	c.cfg.Session, c.cfg.Lease, c.cfg.Hold = sized(10*time.Second, 6*time.Second), sized(30*time.Second, 3*time.Second), 1500*time.Millisecond
	stand := sized(2*time.Minute, 8*time.Second)
	ctx, dry := context.WithCancel(t.Context())
	var well, others sync.WaitGroup
	well.Go(func() { c.produce(ctx) })
	watching, blind := context.WithCancel(t.Context())
	others.Go(func() { c.watch(watching) })
	others.Go(func() {
		stoodStill(watching, c.cfg.Lease/3, func(d time.Duration) { _ = c.witness.Stood(Seen{For: d}, nil) })
	})
	t.Cleanup(func() { dry(); blind(); well.Wait(); others.Wait() })

	for range 3 {
		c.join()
	}
	rounds := 1
	if soaks() {
		rounds = 2
	}
	for range rounds {
		proceed := c.stop()
		for began := time.Now(); ; {
			c.join()
			c.eldest().terminate(t)
			c.kill()
			c.join()
			if left := stand - time.Since(began); left < 10*time.Second {
				time.Sleep(left)
				break
			}
			time.Sleep(5 * time.Second) // a session that may pass without a change
		}
		proceed()
	}
	time.Sleep(time.Second) // it is heard of by the others, and they of it
	c.join()
	c.eldest().terminate(t)
	dry()
	well.Wait()
	// Who dies while much waits leaves suspects, and each of them runs alone: a slow
	// machine has minutes of them.
	for end := time.Now().Add(sized(6*time.Minute, 30*time.Second)); !c.o.settled(t, c.cfg.Group, c.cfg.Topic, companyPartitions); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Error("the group does not come to the end of the topic")
			break
		}
	}
	time.Sleep(100 * time.Millisecond) // one more look
	blind()
	others.Wait()
	for len(c.here) > 0 {
		c.eldest().terminate(t)
	}
	c.check()
}

//go:build servers && linux

package kafkabroker_test

import (
	"context"
	"fmt"
	"net"
	"net/rpc"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
	"github.com/onceward/onceward/dedup/storetest"
)

// Seen is what a member tells of one run of a handler.
type Seen struct {
	Member string
	No     string
	Fence  uint64
	Effect bool          // End: the handler did its work, whatever its context said
	For    time.Duration // Stood
}

// handlerRun is one run, by the parent's clock.
type handlerRun struct {
	Seen
	began, ended time.Time // ended is zero while it runs, and for ever when its process was killed
}

func (r *handlerRun) String() string {
	const clock = "15:04:05.000"
	return fmt.Sprintf("%s with fence %d by %s, from %s to %s, effect %v", r.No, r.Fence, r.Member, r.began.Format(clock), r.ended.Format(clock), r.Effect)
}

// Witness hears from all members, each call before the member goes on.
type Witness struct {
	mu         sync.Mutex
	runs       []*handlerRun
	open       map[Seen]*handlerRun // that have not ended
	superseded map[Seen]int         // by member and no
	logged     map[Seen]int         // by member and key as logged
	stood      map[string][]pause   // by member, "" for the parent
}

// pause is when a process stood still.
type pause struct{ from, to time.Time }

// overlaps says so of a time whose end is zero when it is not over.
func (p pause) overlaps(from, to time.Time) bool {
	return p.to.After(from) && (to.IsZero() || p.from.Before(to))
}

// stoodStill tells whenever this process did not run for longer than a time:
// it was paused, or a busy machine gave it nothing.
func stoodStill(ctx context.Context, longer time.Duration, tell func(time.Duration)) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for last := time.Now(); ; last = time.Now() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if gap := time.Since(last); gap > longer {
			tell(gap)
		}
	}
}

// Begin is told before a handler does anything.
func (w *Witness) Begin(s Seen, _ *bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &handlerRun{Seen: s, began: time.Now()}
	w.runs, w.open[s] = append(w.runs, r), r
	return nil
}

// End is told after it has done its effect, or given up.
func (w *Witness) End(s Seen, _ *bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	effect := s.Effect
	s.Effect = false
	if r := w.open[s]; r != nil {
		r.ended, r.Effect = time.Now(), effect
		delete(w.open, s)
	}
	return nil
}

// Superseded is told of each such decision.
func (w *Witness) Superseded(s Seen, _ *bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.superseded[s]++
	return nil
}

// Logged is told of each line that suspects a double execution.
func (w *Witness) Logged(s Seen, _ *bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logged[s]++
	return nil
}

// Stood is told when a member did not run for a while.
func (w *Witness) Stood(s Seen, _ *bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stood[s.Member] = append(w.stood[s.Member], pause{time.Now().Add(-s.For), time.Now()})
	return nil
}

// of lists the runs of one operation.
func (w *Witness) of(no string) (rs []handlerRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.No == no {
			rs = append(rs, *r)
		}
	}
	return rs
}

// listen lets members reach it, and returns the socket.
func (w *Witness) listen(t *testing.T, dir string) string {
	t.Helper()
	w.stood, w.open, w.superseded, w.logged = map[string][]pause{}, map[Seen]*handlerRun{}, map[Seen]int{}, map[Seen]int{}
	server := rpc.NewServer()
	if err := server.RegisterName("Witness", w); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "witness")
	l := listenUnix(t, at)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go server.ServeConn(c)
		}
	}()
	return at
}

func listenUnix(t *testing.T, at string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", at)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// claim is one ownership of an operation.
type claim struct {
	no    string
	fence uint64
}

// sharedStore is memstore behind a socket, which remembers when what was
// durable.
type sharedStore struct {
	*memstore.Store

	mu      sync.Mutex
	claimed map[claim]time.Time
	done    map[string]claim     // by whom it was completed, succeeded or failed
	doneAt  map[string]time.Time // and when
	settled map[string]time.Time // when a delivery could be acknowledged: succeeded, or its letter noted
}

func shareStore(t *testing.T, dir string) (s *sharedStore, at string) {
	t.Helper()
	s = &sharedStore{
		Store: memstore.New(), claimed: map[claim]time.Time{}, done: map[string]claim{}, doneAt: map[string]time.Time{}, settled: map[string]time.Time{},
	}
	at = filepath.Join(dir, "store")
	t.Cleanup(storetest.Serve(listenUnix(t, at), s))
	return s, at
}

func (s *sharedStore) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	// One at a time, so that these notes are in the order of the writes.
	s.mu.Lock()
	defer s.mu.Unlock()
	answers, err := s.Store.Apply(ctx, ops)
	now := time.Now()
	for i := range answers {
		no, c := ops[i].Key.ID, claim{ops[i].Key.ID, answers[i].Fence}
		switch {
		case ops[i].Kind == dedup.Claim && answers[i].Kind.Acquired():
			s.claimed[c] = now
		case answers[i].Kind != dedup.Done:
		case ops[i].Kind == dedup.End && answers[i].State == dedup.Succeeded:
			s.done[no], s.doneAt[no], s.settled[no] = claim{no, ops[i].Fence}, now, now
		case ops[i].Kind == dedup.End && answers[i].State == dedup.Failed:
			s.done[no], s.doneAt[no] = claim{no, ops[i].Fence}, now
		case ops[i].Kind == dedup.NoteLetter && s.settled[no].IsZero():
			s.settled[no] = now
		}
	}
	return answers, err
}

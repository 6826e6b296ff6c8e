package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// A world is a broker, a store that processes share, and processes that are
// killed, stopped, cut off from the store and robbed of their partitions at
// random times of a fake clock. It checks while handlers run, and at the end.
type world struct {
	rnd     *rand.Rand
	broker  *membroker.Broker
	store   *memstore.Store
	breaker bool
	// poison: some messages kill their process; then nothing else does, and no
	// lease is lost, so that every crash beside nothing else is theirs.
	poison bool

	mu     sync.Mutex
	procs  []*simProcess
	bad    []string
	kinds  map[string]string // what each id does
	booked map[string]int    // in the commit that completes the record
	dead   map[string]bool   // its failure was completed, by the decisions
	fences map[string]uint64
	last   map[string]*simRun // the latest run of each id
	failed map[string]int     // runs that failed on purpose
	begun  int

	replayed map[string]*simReplay // by dl-id, see simreplay_test.go
}

// simRun is one run of one handler.
type simRun struct {
	ctx   context.Context
	proc  *simProcess
	ended bool
}

// simProcess is one life of a consumer process.
type simProcess struct {
	w      *world
	c      *consumer.Consumer
	stop   context.CancelFunc
	ended  chan struct{}
	killed chan struct{} // closed when it is dead: what it does then does not count
	ending atomic.Bool   // somebody ends it

	mu     sync.Mutex
	source brokers.Source
	mode   storeMode
	rnd    *rand.Rand // of this process' store, guarded by mu
}

type storeMode int

const (
	works storeMode = iota
	fails
	loses // takes effect, answers with an error
	stuck // answers nothing
)

func (p *simProcess) dead() bool {
	select {
	case <-p.killed:
		return true
	default:
		return false
	}
}

type simStore struct {
	dedup.Store
	p *simProcess
}

var errSim = errors.New("made by the simulation")

func (s *simStore) Info() dedup.Info            { return dedup.Info{Kind: "shared"} }
func (s *simStore) CanEnlist(work any) bool     { return s.Store.(dedup.Enlister).CanEnlist(work) }
func (s *simStore) pause(of time.Duration) bool { time.Sleep(of); return s.p.dead() }

// Letters answers nothing while Apply does not.
func (s *simStore) Letters(ctx context.Context, ids []string) ([]dedup.Letter, error) {
	s.p.mu.Lock()
	mode := s.p.mode
	s.p.mu.Unlock()
	if mode == fails || mode == stuck || s.p.dead() {
		return nil, errSim
	}
	return s.Store.Letters(ctx, ids)
}

func (s *simStore) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	s.p.mu.Lock()
	mode, before, after := s.p.mode, upTo(s.p.rnd, 20*time.Millisecond), upTo(s.p.rnd, 20*time.Millisecond)
	s.p.mu.Unlock()
	if mode == stuck {
		select {
		case <-ctx.Done():
		case <-s.p.killed:
		}
		return nil, errSim
	}
	if s.pause(before) || mode == fails {
		return nil, errSim
	}
	answers, err := s.Store.Apply(ctx, ops)
	if s.pause(after) || mode == loses {
		return nil, errSim
	}
	return answers, err
}

// simBroker lets nothing of a dead process through.
type simBroker struct {
	brokers.Broker
	p *simProcess
}

func (b *simBroker) Open(ctx context.Context, spec brokers.Spec) (brokers.Source, error) {
	s, err := b.Broker.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.p.source = s
	return &simSource{s, b.p}, nil
}

func (b *simBroker) Publish(ctx context.Context, messages []brokers.Outgoing) []error {
	if b.p.dead() {
		errs := make([]error, len(messages))
		for i := range errs {
			errs[i] = errSim
		}
		return errs
	}
	return b.Broker.Publish(ctx, messages)
}

type simSource struct {
	brokers.Source
	p *simProcess
}

func (s *simSource) Ack(ds []*brokers.Delivery) error {
	if s.p.dead() {
		return errSim
	}
	return s.Source.Ack(ds)
}

func (s *simSource) Defer(ds []*brokers.Delivery, delay time.Duration) error {
	if s.p.dead() {
		return errSim
	}
	return s.Source.Defer(ds, delay)
}

const simLease = 10 * time.Second

func (w *world) begin() *simProcess {
	p := &simProcess{w: w, ended: make(chan struct{}), killed: make(chan struct{}), rnd: rand.New(rand.NewPCG(rand.Uint64(), 1))}
	lone := 100
	if w.poison {
		lone = 3
	}
	route := consumer.JSON("order.create", job.ID, func(ctx context.Context, j job) error { return w.handle(ctx, p, j) })
	route.Retry = consumer.Retry{MaxFailures: 4, Initial: time.Second, MaxLoneCrashes: lone, MaxBlocking: 10 * time.Second}
	route.Timeout = 2 * time.Minute
	c, err := consumer.New(consumer.Config{
		Name: durable, Broker: &simBroker{w.broker, p}, Topics: []string{topic}, StartFrom: consumer.Earliest,
		Store: &simStore{w.store, p}, Lease: simLease, Workers: 4, Drain: 5 * time.Second,
		Breaker: consumer.Breaker{Off: !w.breaker, MinKeys: 6}, Logger: slog.New(slog.DiscardHandler),
		Observer: func(ds []consumer.Decision) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, d := range ds {
				if d.Verdict == consumer.Dead && d.Reason != "conflict" || d.Verdict == consumer.Doubtful {
					w.dead[d.Key.ID] = true
				}
			}
		},
	}, route)
	if err != nil {
		panic(err)
	}
	p.c = c
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() {
		defer close(p.ended)
		if err := c.Run(ctx); err != nil && !p.dead() && !strings.Contains(err.Error(), "ignored the end") {
			w.wrong("a process ended with %v", err)
		}
	}()
	return p
}

// end ends a process in order or as kill -9 does, after which whatever it still
// does has no effect, and starts another one in its place.
func (p *simProcess) end(kill bool, pause time.Duration) {
	if p.ending.Swap(true) {
		return
	}
	p.halt(kill)
	time.Sleep(pause)
	next := p.w.begin()
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.procs[slices.Index(p.w.procs, p)] = next
}

func (p *simProcess) halt(kill bool) {
	if kill {
		close(p.killed)
		p.mu.Lock()
		s := p.source
		p.mu.Unlock()
		if s != nil {
			_ = s.Close(context.Background())
		}
	}
	p.stop()
	<-p.ended
}

func (w *world) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = append(w.bad, fmt.Sprintf(format, args...))
}

// enter checks what must hold when a handler begins.
func (w *world) enter(ctx context.Context, p *simProcess, id string, op consumer.Operation) *simRun {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun++
	complain := func(format string, args ...any) { w.bad = append(w.bad, id+" "+fmt.Sprintf(format, args...)) }
	if w.booked[id] > 0 || w.dead[id] && w.kinds[id] != "mend" {
		complain("runs although it is completed")
	}
	if sent := w.replaysOf(id); op.Run > 1+sent {
		complain("is in run %d although it was sent back %d times", op.Run, sent)
	}
	if op.Fence <= w.fences[id] {
		complain("has fence %d after %d", op.Fence, w.fences[id])
	}
	w.fences[id] = op.Fence
	if r := w.last[id]; r != nil && !r.ended && r.ctx.Err() == nil && !r.proc.dead() {
		complain("runs beside itself")
	}
	r := &simRun{ctx: ctx, proc: p}
	w.last[id] = r
	return r
}

func (w *world) handle(ctx context.Context, p *simProcess, j job) error {
	op := consumer.Info(ctx)
	run := w.enter(ctx, p, j.No, op)
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		run.ended = true
	}()
	kind, _, _ := strings.Cut(j.Do, "/")
	takes := time.Duration(op.Fence*977%3000) * time.Millisecond
	switch kind {
	case "slow":
		takes = 2*simLease + takes
	case "poison":
		time.Sleep(200 * time.Millisecond)
		go p.end(true, time.Second)
		select {
		case <-p.killed:
		case <-ctx.Done():
		}
		return errSim
	case "deaf": // to the end of its context
		select {
		case <-time.After(simLease + takes):
		case <-p.killed:
		}
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	case <-p.killed:
		return errSim
	}
	if err := w.outcome(j.No, kind, op.Run); err != nil {
		return err
	}
	return dedup.Enlist(ctx, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.booked[j.No]++
		return nil
	})
}

// outcome is what a handler of this kind makes of its run. How often it fails
// does not depend on what is counted.
func (w *world) outcome(id, kind string, of uint32) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed[id]++
	n := w.failed[id]
	switch {
	case kind == "flaky" && n <= 2, kind == "fail":
		return errors.New("once more")
	case kind == "later" && n == 1:
		return consumer.RetryAfter(errors.New("not now"), 2*time.Minute)
	case kind == "panic" && n == 1:
		panic("once")
	case kind == "refuse", kind == "mend" && of == 1:
		return consumer.Terminal(errors.New("refused"))
	case kind == "doubt":
		return consumer.InDoubt(errors.New("who knows"))
	}
	return nil
}

var simKinds = []string{
	"book", "book", "book", "slow", "deaf", "flaky", "later", "panic", "refuse", "fail", "doubt", "conflict", "garbage", "mend", "mend",
}

func (w *world) produce() {
	kind := simKinds[w.rnd.IntN(len(simKinds))]
	if w.poison && (kind == "deaf" || w.rnd.IntN(20) == 0) {
		kind = "poison"
	}
	id := fmt.Sprint(kind, "-", len(w.kinds))
	w.mu.Lock()
	w.kinds[id] = kind
	w.mu.Unlock()
	repeats := 1 + w.rnd.IntN(2)
	if kind == "conflict" {
		repeats = 2
	}
	for i := range repeats {
		value, _ := json.Marshal(job{No: id, Do: kind})
		switch kind {
		case "garbage":
			value = []byte("{" + id)
		case "conflict":
			value, _ = json.Marshal(job{No: id, Do: fmt.Sprint(kind, "/", i)})
		}
		// Repeats of some keys are on another partition.
		m := brokers.Outgoing{Value: value, Key: fmt.Append(nil, "c-", w.rnd.IntN(10))}
		w.broker.Produce(topic, m)
		if kind == "garbage" {
			return
		}
	}
}

// trouble does one thing to a process or the broker.
func (w *world) trouble() {
	w.mu.Lock()
	p := w.procs[w.rnd.IntN(len(w.procs))]
	w.mu.Unlock()
	to := w.broker.Destinations(durable, topic)
	switch w.rnd.IntN(16) {
	case 0, 1:
		p.end(!w.poison, upTo(w.rnd, 3*time.Second))
	case 2:
		p.end(false, 0)
	case 3, 4, 5, 6:
		p.mu.Lock()
		p.mode = []storeMode{fails, loses, stuck}[w.rnd.IntN(3)]
		p.mu.Unlock()
		away := 2 * simLease
		if w.poison {
			away = simLease / 4
		}
		time.Sleep(upTo(w.rnd, away))
		p.mu.Lock()
		p.mode = works
		p.mu.Unlock()
	case 7:
		w.broker.Revoke(durable, topic, int32(w.rnd.IntN(3)))
	case 8:
		w.broker.Lose(durable, topic, int32(w.rnd.IntN(3)))
	case 9, 10:
		w.broker.Redeliver(durable, topic, int32(w.rnd.IntN(3)))
	case 11:
		w.broker.LoseConfirmations([]string{to.DeadLetter, to.Retry}[w.rnd.IntN(2)], 1+w.rnd.IntN(3))
	case 12:
		name := []string{to.DeadLetter, to.Retry}[w.rnd.IntN(2)]
		w.broker.FailPublish(name, errSim)
		time.Sleep(upTo(w.rnd, 20*time.Second))
		w.broker.FailPublish(name, nil)
	case 14, 15:
		p := dedup.Pause{Consumer: durable, Scope: []string{"", "order.create"}[w.rnd.IntN(2)], Who: "ann"}
		_, err := dedup.SetPause(context.Background(), w.store, p)
		time.Sleep(upTo(w.rnd, 20*time.Second))
		if _, lifted := dedup.LiftPause(context.Background(), w.store, p); err != nil || lifted != nil {
			w.wrong("pause: %v, %v", err, lifted)
		}
	case 13:
		w.broker.SetAvailable(false)
		time.Sleep(upTo(w.rnd, 20*time.Second))
		w.broker.SetAvailable(true)
	}
}

// simulate runs the world of a seed and returns what was wrong in it.
func simulate(t *testing.T, seed uint64) (bad []string, begun int) {
	synctest.Test(t, func(*testing.T) {
		w := &world{
			rnd: rand.New(rand.NewPCG(seed, 7)), broker: membroker.New(membroker.Config{Topics: map[string]int{topic: 3}}), store: memstore.New(),
			breaker: seed%2 == 0, poison: seed%3 == 0, kinds: map[string]string{}, booked: map[string]int{}, dead: map[string]bool{},
			fences: map[string]uint64{}, last: map[string]*simRun{}, failed: map[string]int{}, replayed: map[string]*simReplay{},
		}
		w.procs = []*simProcess{w.begin(), w.begin()}
		for range 25 {
			for range w.rnd.IntN(5) {
				w.produce()
			}
			time.Sleep(upTo(w.rnd, 5*time.Second))
			w.trouble()
			w.replay()
		}
		left := -1
		for range 120 {
			time.Sleep(time.Minute)
			busy := w.replay()
			if left = len(w.broker.Unsettled(durable, topic)) + len(w.broker.Waiting(durable, topic)); left == 0 && !busy {
				break
			}
		}
		time.Sleep(time.Minute) // who is being ended is replaced by now
		var status strings.Builder
		for _, p := range w.procs {
			fmt.Fprintf(&status, "; %+v", p.c.Status())
			p.ending.Store(true)
			p.halt(false)
		}
		if left > 0 {
			w.wrong("%d messages are never settled%s", left, status.String())
		}
		w.check()
		bad, begun = w.bad, w.begun
	})
	return bad, begun
}

// check compares what was produced with the bookings and the letters.
func (w *world) check() {
	reasons := map[string]map[string]string{} // by id, by dl-id
	for _, l := range w.broker.Letters(durable, topic) {
		var j job
		if json.Unmarshal(l.Value, &j) != nil {
			j.No = string(l.Value[1:])
		}
		if reasons[j.No] == nil {
			reasons[j.No] = map[string]string{}
		}
		reasons[j.No][header(l, "dl-id")] = header(l, "dl-reason")
	}
	wants := map[string]string{"refuse": "terminal", "fail": "exhausted", "doubt": "in-doubt", "garbage": "decode", "conflict": "conflict", "poison": "crash-loop", "mend": "terminal"}
	for id, kind := range w.kinds {
		want, letters := wants[kind], reasons[id]
		books := 1
		if want != "" && kind != "conflict" && kind != "mend" {
			books = 0
		}
		right := len(letters) == 0 && want == ""
		for _, reason := range letters {
			right = len(letters) == 1 && reason == want
		}
		if n := w.booked[id]; n != books || !right {
			w.wrong("%s is booked %d times, want %d, and has letters %v, want %q", id, n, books, letters, want)
		}
	}
	w.checkReplays()
}

// ONCEWARD_SIM_SEED repeats one seed.
func TestSoakRandomTroubleLosesNothingAndRepeatsNothing(t *testing.T) {
	first, n := uint64(1), 50
	if soaks() {
		n = 1000
	}
	if text := os.Getenv("ONCEWARD_SIM_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, n = seed, 1
	}
	failed, begun, began := 0, 0, time.Now()
	for seed := first; seed < first+uint64(n); seed++ {
		bad, runs := simulate(t, seed)
		begun += runs
		if len(bad) > 0 {
			t.Errorf("seed %d:\n\t%s", seed, strings.Join(bad, "\n\t"))
			if failed++; failed == 5 {
				t.Fatal("enough")
			}
		}
	}
	t.Logf("%d worlds, %d runs of handlers, %v a world", n, begun, time.Since(began)/time.Duration(n))
}

func upTo(rnd *rand.Rand, d time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(d))) }

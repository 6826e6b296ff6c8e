package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// options of a run, as the flags say.
type options struct {
	messages int
	kills    int
	seed     uint64
	keep     string // folder that is kept; empty for a temporary one
	kafka    string // addresses of a cluster, or "embedded"; empty for JetStream
	json     bool
}

// stalled is how long no message may be settled and no order called before the
// run is given up and judged as it stands. Well above [ackWait], every pause
// between retries and the start of a process.
const stalled = 30 * time.Second

// run is one run, from the empty folder to the evidence.
type run struct {
	options options
	show    *screen
	folder  *folder
	sent    *workload
	broker  broker
	witness *witness
	log     *os.File // of the consumer process
	rng     *rand.Rand

	process *process // the present one
	held    int      // as last asked
	among   int      // kills that fell while handlers ran
	moved   time.Time
	last    [2]int // what was seen when it moved
	gaveUp  error
}

// prove runs everything and leaves nothing behind but what is to be kept.
//
// Errors: what kept the run from coming to a verdict, such as ctx's end. A
// broken promise is no error: it is in the verdict.
func prove(ctx context.Context, o options, show *screen) (s summary, broken []string, sample *letter, err error) {
	began := time.Now()
	r := &run{options: o, show: show, rng: rand.New(rand.NewPCG(o.seed, 1))}
	if r.folder, err = openFolder(o.keep); err != nil {
		return s, nil, nil, err
	}
	defer func() {
		show.clear()
		err = errors.Join(err, r.end())
	}()
	e, err := r.collect(ctx)
	if err != nil {
		return s, nil, nil, err
	}
	s, broken = judge(e)
	s.Seconds = float64(time.Since(began).Milliseconds()) / 1000
	for i := range e.letters {
		if e.letters[i].Reason == "terminal" {
			sample = &e.letters[i]
		}
	}
	if o.keep != "" {
		err = keepLetters(r.folder.in("letters.jsonl"), e.letters)
	}
	return s, broken, sample, err
}

// collect runs the consumer through its lives and asks everybody.
func (r *run) collect(ctx context.Context) (*evidence, error) {
	r.sent = newWorkload(r.options.messages, r.options.seed)
	r.witness = newWitness(r.sent.orders)
	var err error
	if r.log, err = os.Create(r.folder.in("consumer.log")); err != nil {
		return nil, err
	}
	if r.broker, err = startBroker(ctx, &r.options, r.folder); err != nil {
		r.broker = nil // not one that holds nothing
		return nil, err
	}
	r.show.say("publishing %d messages", len(r.sent.messages))
	if err := r.broker.publish(ctx, r.sent.messages); err != nil {
		return nil, err
	}
	r.held = len(r.sent.messages)
	for life := range r.options.kills {
		if err := r.live(ctx, life); err != nil {
			return nil, err
		}
	}
	e := &evidence{sent: r.sent, kills: r.options.kills}
	if e.stop, err = r.lastLife(ctx); err != nil {
		return nil, err
	}
	e.among = r.among
	if e.booked, err = r.endLife(); err != nil {
		return nil, err
	}
	e.seen = r.witness.testify()
	if e.records, err = readRecords(ctx, r.file(), r.broker.consumer().Name); err != nil {
		return nil, err
	}
	if e.letters, err = r.broker.letters(ctx); err != nil {
		return nil, err
	}
	e.held, err = r.broker.held(ctx)
	return e, err
}

func (r *run) file() string { return r.folder.in("billing.db") }

// begin starts the next life of the consumer process.
func (r *run) begin(ctx context.Context) error {
	address, err := r.witness.nextLife(ctx)
	if err != nil {
		return err
	}
	config := r.broker.consumer()
	config.Witness, config.File = address, r.file()
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	r.process, err = startProcess(consumerVariable, string(text), r.log)
	r.moved = time.Now()
	return err
}

// endLife notes what a dead process has booked.
func (r *run) endLife() (map[string]int, error) {
	booked, err := readBookings(r.file())
	if err != nil {
		return nil, fmt.Errorf("read the bookings: %w", err)
	}
	return booked, r.witness.endLife(booked)
}

// live runs one life until it is killed: when its share of the orders has been
// called, and while handlers run, of whose calls some are held on the way.
func (r *run) live(ctx context.Context, life int) error {
	if r.gaveUp != nil {
		return nil
	}
	trap := r.witness.set(max(1, r.sent.good*(life+1)/(r.options.kills+1)), 1+r.rng.IntN(min(workers, 16)))
	if err := r.begin(ctx); err != nil {
		return err
	}
	caught := 0
	err := r.watch(ctx, func() bool {
		before := caught
		caught = r.witness.caught(trap)
		return caught > 0 && caught == before // as many as there are, if fewer than wanted
	}, trap.snap)
	if err != nil {
		return err
	}
	if r.witness.caught(trap) > 0 {
		r.among++
	}
	if err := r.process.kill(); err != nil {
		return fmt.Errorf("kill the consumer process: %w", err)
	}
	_, err = r.endLife()
	return err
}

// lastLife runs the last life, until the durable holds nothing more and the
// process has stopped in order; where it did not, stopped says why.
func (r *run) lastLife(ctx context.Context) (stopped, err error) {
	if r.gaveUp != nil {
		return r.gaveUp, nil
	}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	if err := r.watch(ctx, func() bool { return r.held == 0 }, nil); err != nil {
		return nil, err
	}
	if r.gaveUp != nil {
		return r.gaveUp, r.process.kill()
	}
	return r.process.stop(), nil
}

// watch shows how it goes, until done says so, or the channel is closed, or
// the run is given up.
//
// Errors: ctx's; the consumer process ended by itself.
func (r *run) watch(ctx context.Context, done func() bool, now <-chan struct{}) error {
	most := 2 * maxFailures * (len(r.sent.orders) + r.options.kills*workers) // far more than any right run has
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-now:
			return nil
		case <-r.process.ended:
			return fmt.Errorf("the consumer process ended by itself (%w); the end of its log:\n%s", exitOf(r.process.err), r.tail())
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		held, err := r.broker.held(ctx)
		if err != nil {
			return err
		}
		r.held = held
		begins, called := r.witness.progress()
		r.show.say("%d of %d orders called, %d messages to go, killed %d of %d times", called, r.sent.good, held, r.among, r.options.kills)
		if state := [2]int{held, called}; state != r.last {
			r.last, r.moved = state, time.Now()
		}
		switch {
		case done():
			return nil
		case time.Since(r.moved) > stalled:
			r.gaveUp = fmt.Errorf("nothing moved for %v, so it was killed", stalled)
		case begins > most:
			r.gaveUp = fmt.Errorf("handlers ran %d times for %d orders, so it was killed", begins, len(r.sent.orders))
		}
		if r.gaveUp != nil {
			return nil
		}
	}
}

func exitOf(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// tail is the end of the consumer's log.
func (r *run) tail() string {
	const most = 2000
	text, err := os.ReadFile(r.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// end ends whatever still runs and removes the folder, unless it is kept.
func (r *run) end() error {
	if r.process != nil {
		select {
		case <-r.process.ended:
		default:
			_ = r.process.kill() // it may just have ended
		}
	}
	var errs []error
	if r.witness != nil {
		errs = append(errs, r.witness.endLife(nil))
	}
	if r.broker != nil {
		r.broker.close()
	}
	if r.log != nil {
		errs = append(errs, r.log.Close())
	}
	return errors.Join(append(errs, r.folder.remove())...)
}

// keepLetters writes the letters for a reader, one a line.
func keepLetters(path string, letters []letter) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	lines := json.NewEncoder(out)
	for i := range letters {
		if err := lines.Encode(&letters[i]); err != nil {
			return err
		}
	}
	return out.Flush()
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

// patience is how long the run waits for what must come.
const patience = 2 * time.Minute

// run is one incident.
type run struct {
	o      options
	talk   io.Writer
	place  place
	folder string
	shop   *shop
	rng    *rand.Rand
}

// incident runs everything and leaves nothing behind.
func incident(ctx context.Context, o options, talk io.Writer) (res result, err error) {
	r := &run{o: o, talk: talk, rng: rand.New(rand.NewPCG(o.seed, 1))}
	if r.folder, err = os.MkdirTemp("", "onceward-replay-"); err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.folder)) }()
	b, err := startBroker(ctx, o, r.folder)
	if err != nil {
		return res, err
	}
	defer b.close()
	r.place = b.place()
	r.shop = &shop{topic: r.place.Topic, name: r.place.Name, effects: map[string]int{}}
	if err := r.open(ctx); err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.die(ctx); err != nil {
		return res, err
	}
	plan, err := r.plan(ctx)
	if err != nil {
		return res, err
	}
	defer plan.close()
	counts, err := r.apply(ctx, plan)
	if err != nil {
		return res, err
	}
	return r.judge(ctx, plan, counts)
}

// open connects, and opens the store.
func (r *run) open(ctx context.Context) (err error) {
	if r.shop.broker, err = r.place.connect(ctx); err != nil {
		return err
	}
	r.shop.store, err = boltstore.Open(r.file(), boltstore.Options{})
	return err
}

func (r *run) close() error {
	var errs []error
	if r.shop.store != nil {
		errs = append(errs, r.shop.store.Close())
	}
	if r.shop.broker != nil {
		errs = append(errs, r.shop.broker.Close())
	}
	return errors.Join(errs...)
}

func (r *run) file() string { return filepath.Join(r.folder, "billing.db") }

func (r *run) queue() *deadletter.Queue { return r.place.queue(r.shop.broker, r.shop.store) }

// die sends the orders and waits until those that die are dead.
func (r *run) die(ctx context.Context) error {
	all := messages(r.o.letters)
	fmt.Fprintf(r.talk, "%d orders are sent, and half of them cannot be done\n", len(all))
	for part := range slices.Chunk(all, 500) {
		for i := range part {
			part[i].Topic = r.place.Publish
		}
		for _, err := range r.shop.broker.Publish(ctx, part) {
			if err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		}
	}
	stop, err := r.shop.consume(ctx)
	if err != nil {
		return err
	}
	var dead int
	err = until(ctx, "the letters", func() (bool, error) {
		dead = 0
		for l, err := range r.shop.store.ScanLetters(ctx, r.shop.name) {
			if err != nil {
				return false, err
			}
			if l.State == dedup.LetterOpen {
				dead++
			}
		}
		return dead == r.o.letters, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("%d of %d letters: %w", dead, r.o.letters, err), stop())
	}
	fmt.Fprintf(r.talk, "%d letters lie in %s\n", dead, r.queue().Topic)
	return stop()
}

// plan mends the causes and decides what to do about the letters.
func (r *run) plan(ctx context.Context) (*planFile, error) {
	r.shop.mend()
	decided, err := r.shop.askTheBank(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(r.talk, "the handler is mended; the bank's books decide %d orders in doubt\n", decided)
	path := filepath.Join(r.folder, "plan.jsonl")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	plan, err := r.queue().Plan(ctx, deadletter.Selection{Who: "ann", Why: "causes mended"}, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	fmt.Fprintf(r.talk, "the plan: %s\n", words(plan.Counts))
	return openPlan(path)
}

// planFile is a plan in a file.
type planFile struct {
	*deadletter.PlanFile
	path string
	file *os.File
}

func openPlan(path string) (*planFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	plan, err := deadletter.ReadPlan(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &planFile{PlanFile: plan, path: path, file: f}, nil
}

func (p *planFile) close() { _ = p.file.Close() } // it was only read

// apply sends the letters back, and waits until each has its outcome.
func (r *run) apply(ctx context.Context, plan *planFile) (map[deadletter.Did]int, error) {
	met := 0
	for kill := range r.o.kills {
		atWork, err := r.applyAndKill(ctx, plan, kill)
		if err != nil {
			return nil, err
		}
		if atWork {
			met++
		}
	}
	if 2*met < r.o.kills {
		return nil, fmt.Errorf("only %d of %d kills met the process at work: they prove nothing", met, r.o.kills)
	}
	if r.o.kills > 0 {
		fmt.Fprintf(r.talk, "the process that applies it was killed %d %s with kill -9, and called again\n", r.o.kills, times(r.o.kills))
	}
	stop, err := r.shop.consume(ctx)
	if err != nil {
		return nil, err
	}
	report, err := r.queue().Apply(ctx, plan.PlanFile, deadletter.ApplyConfig{Canary: 10, MaxFailureRatio: 0.1})
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	fmt.Fprintf(r.talk, "applied: %s\n", words(report.Counts))
	err = until(ctx, "the outcomes", func() (bool, error) {
		counts, err := r.outcomes(ctx, plan)
		return counts[deadletter.Waiting] == 0, err
	})
	return report.Counts, errors.Join(err, stop())
}

func (r *run) outcomes(ctx context.Context, plan *planFile) (map[deadletter.Outcome]int, error) {
	counts := map[deadletter.Outcome]int{}
	for e, err := range r.queue().Outcome(ctx, plan.PlanFile) {
		if err != nil {
			return nil, err
		}
		counts[e.Outcome]++
	}
	return counts, nil
}

// judge counts what came of it.
func (r *run) judge(ctx context.Context, plan *planFile, did map[deadletter.Did]int) (result, error) {
	outcomes, err := r.outcomes(ctx, plan)
	if err != nil {
		return result{}, err
	}
	fmt.Fprintf(r.talk, "outcome: %s\n", words(outcomes))
	res := result{
		Letters: plan.Letters, Sent: did[deadletter.DidSend] + did[deadletter.DidBefore], Succeed: outcomes[deadletter.Succeeded],
		Resolved: outcomes[deadletter.Resolved], Refused: outcomes[deadletter.Refused],
	}
	for i := range r.o.letters {
		id := fmt.Sprintf("ord-%d", i)
		switch n := r.shop.charged(id); {
		case n > 1:
			res.Double++
		case n == 0 && causeOf(i) != bank:
			res.Lost++
		}
	}
	res.OK = res.Letters == r.o.letters && res.Sent+res.Resolved+res.Refused == res.Letters && res.Succeed == res.Sent &&
		res.Double == 0 && res.Lost == 0
	fmt.Fprintf(r.talk, "proof: %d sent, %d succeeded, %d resolved without sending, %d left to a person, %d effects twice, %d lost\n",
		res.Sent, res.Succeed, res.Resolved, res.Refused, res.Double, res.Lost)
	return res, nil
}

func times(n int) string {
	if n == 1 {
		return "time"
	}
	return "times"
}

// words are counts for people, the largest first: "300 reopen, 9 resolve".
func words[K ~string](counts map[K]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b K) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return strings.Join(parts, ", ")
}

// until waits for something, and looks every so often.
func until(ctx context.Context, what string, is func() (bool, error)) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		if done, err := is(); done || err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-late.C:
			return fmt.Errorf("waited %v for %s", patience, what)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

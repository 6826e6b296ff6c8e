package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup/boltstore"
)

// applyVariable holds what a process that applies the plan must know.
const applyVariable = "ONCEWARD_REPLAY_APPLY"

// childFailed is the exit status of such a process that could not apply the
// plan; 1 is also that of a killed one on Windows.
const childFailed = 3

// orders for a process that applies the plan.
type childOrders struct {
	Place place
	File  string // of the store
	Plan  string // its file
	Rate  float64
}

// applyInChild is the process that is killed.
func applyInChild(text string, stdout, stderr io.Writer) int {
	var o childOrders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = applyOnce(context.Background(), o, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return childFailed
	}
	return 0
}

func applyOnce(ctx context.Context, o childOrders, stdout io.Writer) (err error) {
	store, err := boltstore.Open(o.File, boltstore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	broker, err := o.Place.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	plan, err := openPlan(o.Plan)
	if err != nil {
		return err
	}
	defer plan.close()
	fmt.Fprintln(stdout, "begins")
	_, err = o.Place.queue(broker, store).Apply(ctx, plan.PlanFile, deadletter.ApplyConfig{Rate: o.Rate})
	return err
}

// applyAndKill lets a process apply the plan and kills it at a random moment;
// met says that it was at work then. Before it, at times, the consumer runs for
// a while: some copies are answered when the next process goes on, and some are
// not.
func (r *run) applyAndKill(ctx context.Context, plan *planFile, kill int) (met bool, err error) {
	if r.rng.IntN(3) == 0 {
		stop, err := r.shop.consume(ctx)
		if err != nil {
			return false, err
		}
		sleep(ctx, time.Duration(50+r.rng.IntN(150))*time.Millisecond)
		if err := stop(); err != nil {
			return false, err
		}
	}
	if err := r.shop.store.Close(); err != nil { // a file has one process at a time
		return false, err
	}
	// Each life gets about its share of the letters done, with what it sends at
	// once: the plan must not come to its end before the last kill.
	const life = 40 * time.Millisecond
	orders := childOrders{
		Place: r.place, File: r.file(), Plan: plan.path,
		Rate: float64(r.o.letters) / float64(r.o.kills) / life.Seconds() / 3,
	}
	if met, err = killChild(ctx, orders, time.Duration(r.rng.Int64N(int64(2*life)))); err != nil {
		return false, fmt.Errorf("kill %d: %w", kill+1, err)
	}
	store, err := boltstore.Open(r.file(), boltstore.Options{})
	if err != nil {
		return false, err
	}
	r.shop.store = store
	return met, nil
}

// killChild starts the process and kills it so long after it has begun; met says
// that it had not come to its end.
func killChild(ctx context.Context, o childOrders, after time.Duration) (met bool, err error) {
	program, err := os.Executable()
	if err != nil {
		return false, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), applyVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "begins\n" {
		return false, fmt.Errorf("the process did not begin: %w", cmd.Wait())
	}
	sleep(ctx, after)
	_ = cmd.Process.Kill() // it may have come to its end
	_ = cmd.Wait()         // what it came to is its state
	switch cmd.ProcessState.ExitCode() {
	case 0:
		return false, nil
	case childFailed:
		return false, errors.New("the process could not apply the plan")
	}
	return true, nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

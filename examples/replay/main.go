// Replay shows an incident from its alarm to its end, on real parts: a
// JetStream server, a bbolt file, and 500 dead letters of five causes.
//
//	replay [--letters N] [--kills N] [--seed N] [--kafka ADDRESSES] [--json]
//
// A consumer gives up on orders, each for a cause of its own: the customer is
// not known, a service is away, the payload is of a version that it cannot read,
// a bank did not answer, another order has the same id. Then the causes are
// mended, the bank is asked, and the letters are sent back by a plan: what may
// run runs, what succeeded meanwhile is resolved, what a person must look at is
// refused. In the end every order's effects are counted.
//
// With --kills the plan is applied by a process of its own, which is killed with
// kill -9 so often and started again. With --kafka it does so on the Kafka
// cluster at these addresses, or with --kafka embedded on a cluster in this
// process that answers like one.
//
// Exit status: 0 when every promise held, 1 when one did not or the run could
// not be done, 2 for wrong flags.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if text, child := os.LookupEnv(applyVariable); child {
		os.Exit(applyInChild(text, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	os.Exit(replay(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options of a run, as the flags say.
type options struct {
	letters int
	kills   int
	seed    uint64
	kafka   string // addresses of a cluster, or "embedded"; empty for JetStream
	json    bool
}

// result is the verdict, and its form a promise to scripts.
type result struct {
	Letters  int  `json:"letters"`
	Sent     int  `json:"sent"`
	Succeed  int  `json:"succeeded"`
	Resolved int  `json:"resolved_without_sending"`
	Refused  int  `json:"refused"`
	Double   int  `json:"double_effects"`
	Lost     int  `json:"lost"`
	OK       bool `json:"ok"`
}

// replay runs the incident and returns the exit status.
func replay(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	talk := stdout
	if o.json {
		talk = io.Discard
	}
	r, err := incident(ctx, o, talk)
	if err == nil && o.json {
		err = json.NewEncoder(stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(stderr, "replay:", err)
		return 1
	}
	if !r.OK {
		fmt.Fprintf(stderr, "replay: a promise was broken: %+v; --seed %d plans the same orders\n", r, o.seed)
		return 1
	}
	return 0
}

// parse reads the flags. What is wrong with them is printed.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("replay", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.letters, "letters", 500, "`N` orders die")
	f.IntVar(&o.kills, "kills", 0, "the process that sends them back is killed `N` times")
	f.Uint64Var(&o.seed, "seed", 0, "plan kills from `N`; 0 takes a random one")
	f.StringVar(&o.kafka, "kafka", "", "on Kafka at these `addresses`, separated by commas, or \"embedded\", in place of JetStream")
	f.BoolVar(&o.json, "json", false, "print one JSON object on one line")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var err error
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.letters < 20 || o.letters > 100_000:
		err = fmt.Errorf("--letters %d: must be 20 to 100000", o.letters)
	case o.kills < 0 || o.kills > o.letters:
		err = fmt.Errorf("--kills %d: must be 0 to the number of letters", o.kills)
	}
	if err != nil {
		fmt.Fprintln(stderr, "replay:", err)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()>>11 | 1
	}
	return o, err
}

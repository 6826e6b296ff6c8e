// Quickstart shows onceward's main job on real parts and proves that it was
// done: a JetStream server, a bbolt file, repeated, flaky and poisoned
// messages, and a consumer process that is killed with kill -9 while handlers
// run.
//
//	quickstart [--messages N] [--kills N] [--seed N] [--keep DIR] [--kafka ADDRESSES] [--json]
//
// Every order is booked in the consumer's file, and told to a service outside
// that counts every call. In the end the file, the service, the dead letters
// and what the broker still holds are compared with what was sent; nothing is
// taken on the consumer's word.
//
// With --kafka it does so on the Kafka cluster at these addresses, in a topic of
// its own that it removes in the end, or with --kafka embedded on a cluster in
// this process that answers like one.
//
// Exit status: 0 when every promise held, 1 when one did not or the run could
// not be done, 2 for wrong flags, 130 after an interrupt.
package main

import (
	"bytes"
	"context"
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
	if status, played := playRole(); played {
		os.Exit(status)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	os.Exit(quickstart(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// playRole is for the processes that the quickstart itself starts.
func playRole() (status int, played bool) {
	text, consumer := os.LookupEnv(consumerVariable)
	path, sweeper := os.LookupEnv(sweeperVariable)
	if !consumer && !sweeper {
		return 0, false
	}
	// They end with their parent, which decides what Ctrl-C means.
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	if sweeper {
		return sweep(path), true
	}
	return consume(text), true
}

// quickstart runs the proof and returns the exit status.
func quickstart(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	s, broken, sample, err := prove(ctx, o, newScreen(stderr))
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "quickstart: interrupted")
		return 130
	case err != nil:
		fmt.Fprintln(stderr, "quickstart:", err)
		return 1
	}
	for _, line := range broken {
		fmt.Fprintln(stderr, "broken:", line)
	}
	return tell(o, s, sample, stdout, stderr)
}

// tell prints the result and returns the exit status, which is that of a proof
// only when somebody could read it.
func tell(o options, s summary, sample *letter, stdout, stderr io.Writer) int {
	var err error
	if o.json {
		err = printJSON(stdout, s)
	} else {
		var table bytes.Buffer
		printTable(&table, o, s, sample)
		_, err = stdout.Write(table.Bytes())
	}
	switch {
	case !s.OK:
		fmt.Fprintf(stderr, "quickstart: the proof failed; --seed %d plans the same messages\n", o.seed)
		return 1
	case err != nil:
		fmt.Fprintln(stderr, "quickstart: the result could not be written:", err)
		return 1
	}
	return 0
}

// Bounds of the flags.
const (
	minMessages = 100 // fewer have none of some kinds
	maxMessages = 10_000_000

	defaultKills = 2
)

// parse reads the flags. What is wrong with them is printed.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.messages, "messages", 5000, "`N` messages are sent")
	f.IntVar(&o.kills, "kills", defaultKills, "the consumer process is killed `N` times, at most once for each 100 messages")
	f.Uint64Var(&o.seed, "seed", 0, "plan messages and kills from `N`; 0 takes a random one")
	f.StringVar(&o.keep, "keep", "", "leave the server's files, billing.db, consumer.log and letters.jsonl in `DIR`")
	f.StringVar(&o.kafka, "kafka", "", "on Kafka at these `addresses`, separated by commas, or \"embedded\", in place of JetStream")
	f.BoolVar(&o.json, "json", false, "print one JSON object on one line")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	killsSaid := false
	f.Visit(func(set *flag.Flag) { killsSaid = killsSaid || set.Name == "kills" })
	if !killsSaid {
		o.kills = min(o.kills, max(o.messages/minMessages, 0))
	}
	var err error
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.messages < minMessages || o.messages > maxMessages:
		err = fmt.Errorf("--messages %d: must be %d to %d", o.messages, minMessages, maxMessages)
	case o.kills < 0 || o.kills > o.messages/minMessages:
		err = fmt.Errorf("--kills %d: must be 0 to %d, one for each %d messages", o.kills, o.messages/minMessages, minMessages)
	}
	if err != nil {
		fmt.Fprintln(stderr, "quickstart:", err)
		return o, err
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()>>11 | 1
	}
	return o, nil
}

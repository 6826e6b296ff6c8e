// Command bench measures onceward against what a Go team would otherwise use
// or write: the bare loop of each client library, Watermill, and a store of
// two transactions a message. Every measurement is a process of its own, the
// two sides of a ratio run in turns (A B A B), and a ratio is the median of
// those of the rounds.
//
//	bench nats|kafka|store [-rounds 5] [-dir DIR]   measure; the last line is one JSON object
//	bench case NAME [flags]                         one measurement, one JSON object
//	bench cases                                     their names
//
// It needs Linux and a folder on a real disk (DIR, default out), and starts
// the servers that it needs.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
)

// flags of one measurement, handed on by the driver.
var (
	n       = flag.Int("n", 0, "messages")
	dir     = flag.String("dir", "out", "folder for data, on a real disk")
	natsURL = flag.String("nats", "", "NATS server")
	kafkaAt = flag.String("kafka", "", "Kafka bootstrap address")
	stream  = flag.String("stream", "", "topic or stream that is read")
	fails   = flag.Bool("fail", false, "the handler fails on what is marked bad")
	rate    = flag.Int("rate", 0, "latency: messages a second")
	pre     = flag.Int("pre", 0, "store: ids present before")
	callers = flag.Int("callers", 500, "store: concurrent callers")
	servers = flag.String("servers", "", "pids of the servers, for their CPU time")
	rounds  = flag.Int("rounds", 5, "rounds")
	profile = flag.String("cpuprofile", "", "write a CPU profile of the measurement")
	size    = flag.Float64("size", 1, "share of the full number of messages, for a trial")
)

// cases are the measurements, by name.
var cases = map[string]func(m *meter){}

var drivers = map[string]func() error{"nats": driveNATS, "kafka": driveKafka, "store": driveStore}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	command, args := os.Args[1], os.Args[2:]
	name := ""
	if command == "case" || command == "serve-nats" {
		if len(args) == 0 {
			usage()
		}
		name, args = args[0], args[1:]
	}
	must(flag.CommandLine.Parse(args))
	switch command {
	case "cases":
		for _, name := range slices.Sorted(maps.Keys(cases)) {
			fmt.Println(name)
		}
	case "case":
		run := cases[name]
		if run == nil {
			usage()
		}
		measure(name, run)
	case "serve-nats":
		must(serveNATS(name))
	default:
		drive := drivers[command]
		if drive == nil {
			usage()
		}
		if err := drive(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: bench nats|kafka|store|cases [flags], or bench case NAME [flags]")
	os.Exit(2)
}

// must ends a measurement that cannot go on: half of one is worth nothing.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// screen shows progress on one line of a terminal, and nothing elsewhere.
type screen struct {
	out   *os.File
	width int // of what is there now
	mute  bool
}

func newScreen(out *os.File) *screen {
	info, err := out.Stat()
	return &screen{out: out, mute: err != nil || info.Mode()&os.ModeCharDevice == 0}
}

func (s *screen) say(format string, args ...any) {
	if s.mute {
		return
	}
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(s.out, "\r%s%s", text, strings.Repeat(" ", max(0, s.width-len(text))))
	s.width = len(text)
}

func (s *screen) clear() {
	if s.width > 0 {
		s.say("")
		fmt.Fprint(s.out, "\r")
	}
}

// printJSON writes the summary as one object on one line.
func printJSON(out io.Writer, s summary) error { return json.NewEncoder(out).Encode(s) }

// printTable writes the summary for a person.
func printTable(out io.Writer, o options, s summary, sample *letter) {
	d := &s.DeadLetters
	var kinds []string
	for _, reason := range reasons {
		kinds = append(kinds, reason+" "+thousands(*d.of(reason)))
	}
	if d.Other > 0 {
		kinds = append(kinds, "other "+thousands(d.Other))
	}
	on := "JetStream"
	if o.kafka != "" {
		on = "Kafka (" + o.kafka + ")"
	}
	fmt.Fprintf(out, "%s and a bolt file, seed %d, %.1f s\n\n", on, o.seed, s.Seconds)
	row := func(what string, n int, note string) { fmt.Fprintf(out, "%14s %9s  %s\n", what, thousands(n), note) }
	row("sent", s.Messages, "messages")
	row("handled", s.BookedOrders, "orders booked, of "+thousands(s.Orders)+" that should be")
	row("absorbed", s.Duplicates, "messages answered from the record, without the handler")
	row("retried", s.Retries, "handler runs beyond the first of an order, of "+thousands(s.HandlerRuns))
	row("dead-lettered", d.all(), strings.Join(kinds, ", "))
	row("killed", s.Kills, "times with kill -9 while handlers ran; "+thousands(s.CrashWindowRepeats)+" calls outside had no record yet and were repeated")
	verdict := "ok"
	if !s.OK {
		verdict = "BROKEN"
	}
	fmt.Fprintf(out, "\nproof: %s of %s orders booked, %s booked twice, %s messages lost, %s calls after done: %s\n",
		thousands(s.BookedOrders), thousands(s.Orders), thousands(s.DoubleBookings), thousands(s.Lost), thousands(s.CallsAfterDone), verdict)
	if s.OK {
		nextSteps(out, o, sample)
	}
}

// The wrap, as the README has it, and with Kafka in JetStream's place.
const (
	wrapJetStream = `       js, err := natsbroker.Connect(ctx, natsbroker.Config{URL: "nats://127.0.0.1:4222"})
       store, err := boltstore.Open("billing.db", boltstore.Options{})
       c, err := consumer.New(consumer.Config{
           Name: "billing", Broker: js, Topics: []string{"ORDERS"}, StartFrom: consumer.Earliest, Store: store,
       }, consumer.JSON("order.create", Order.ID, create)) // create: func(context.Context, Order) error
       err = c.Run(ctx)
`
	wrapKafka = `       kafka, err := kafkabroker.Connect(ctx, kafkabroker.Config{Brokers: []string{"127.0.0.1:9092"}})
       store, err := boltstore.Open("billing.db", boltstore.Options{})
       c, err := consumer.New(consumer.Config{
           Name: "billing", Broker: kafka, Topics: []string{"orders"}, StartFrom: consumer.Earliest, Store: store,
       }, consumer.JSON("order.create", Order.ID, create)) // create: func(context.Context, Order) error
       err = c.Run(ctx)
`
)

// nextSteps says what to do with it.
func nextSteps(out io.Writer, o options, sample *letter) {
	wrap, own := wrapJetStream, "nats-orders@latest%s --url nats://127.0.0.1:4222%s"
	if o.kafka != "" {
		wrap, own = wrapKafka, "kafka-orders@latest%s --brokers 127.0.0.1:9092%s"
	}
	fmt.Fprintf(out, "\nNext:\n1. Wrap your own handler:\n\n%s\n2. Look at a letter.", wrap)
	if sample != nil {
		fmt.Fprintf(out, " One of this run: dl-reason %s, dl-key %s,\n   dl-error %q.", sample.Reason, sample.Headers["dl-key"], sample.Headers["dl-error"])
	}
	where := "With --keep DIR all of them stay in DIR/letters.jsonl"
	if o.keep != "" {
		where = "All of them are in " + filepath.Join(o.keep, "letters.jsonl")
	}
	const program = "       go run github.com/onceward/onceward/examples/"
	fmt.Fprintf(out, "\n   %s, one a line.\n   Of a consumer that runs, as one of those below, the command onceward shows letters, and sends them back:\n\n", where)
	const command = "       go run github.com/onceward/onceward/cmd/onceward@latest dlq"
	fmt.Fprintf(out, command+" list --via http://127.0.0.1:8080\n"+command+" show ID --via http://127.0.0.1:8080\n\n3. Run against your own broker: a consumer to deploy, and traffic for it:\n\n")
	fmt.Fprintf(out, program+own+"\n", "", " --create")
	fmt.Fprintf(out, program+own+"\n", " produce", "")
}

// thousands writes 12345 as 12,345.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

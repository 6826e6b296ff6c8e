package natsbroker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/natstest"
)

func startError(t *testing.T, b *Broker, spec brokers.Spec) *brokers.StartError {
	t.Helper()
	s, err := b.Open(t.Context(), spec)
	if err == nil {
		_ = s.Close(t.Context())
		t.Fatal("opened")
	}
	var fault *brokers.StartError
	if !errors.As(err, &fault) {
		t.Fatalf("open: %v", err)
	}
	return fault
}

// Without Create each missing part is named with the command that makes it; the
// operator makes one after the other.
func TestMissingPartsAreNamedWithTheirCommand(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	b := connect(t, Config{URL: url})
	stream := func(c jetstream.StreamConfig) func() {
		return func() {
			if _, err := js.CreateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	durable := func(stream string, c jetstream.ConsumerConfig) func() {
		return func() {
			if _, err := js.CreateConsumer(t.Context(), stream, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, step := range []struct {
		command string
		make    func()
	}{
		{"nats stream add ORDERS --subjects='ORDERS.>'", stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.*"}})},
		{"nats stream add ORDERS_DLQ --subjects='ORDERS_DLQ.>' --storage=file --retention=limits --discard=new",
			stream(jetstream.StreamConfig{Name: "ORDERS_DLQ", Subjects: []string{"ORDERS_DLQ.>"}})},
		{"nats stream add ORDERS_RETRY --subjects='ORDERS_RETRY.>' --storage=file --retention=work --discard=new",
			stream(jetstream.StreamConfig{Name: "ORDERS_RETRY", Subjects: []string{"ORDERS_RETRY.billing"}})},
		{"nats consumer add ORDERS billing --pull --ack=explicit --max-deliver=-1 --wait=30s --max-pending=20000",
			durable("ORDERS", jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 2000})},
		{"nats consumer add ORDERS_RETRY billing --pull --ack=explicit --max-deliver=-1 --wait=30s --max-pending=-1",
			durable("ORDERS_RETRY", jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1, FilterSubject: "ORDERS_RETRY.billing"})},
	} {
		fault := startError(t, b, specOf("ORDERS"))
		if !strings.Contains(fault.Mend, step.command) {
			t.Fatalf("%v\nwant %s", fault, step.command)
		}
		step.make()
	}
	openSource(t, b, specOf("ORDERS"))
}

func TestWhatIsThereIsComparedAndNeverChanged(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	b := connect(t, Config{URL: url, Create: true})
	letters := jetstream.StreamConfig{Name: "S_DLQ", Subjects: []string{"S_DLQ.>"}}
	retry := jetstream.StreamConfig{Name: "S_RETRY", Subjects: []string{"S_RETRY.>"}}
	main := jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 2000}
	copies := jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1, FilterSubject: "S_RETRY.billing"}
	for name, c := range map[string]struct {
		change func()
		mend   string
	}{
		"letters without the subject":  {func() { letters.Subjects = []string{"S_DLQ.other"} }, "nats stream edit S_DLQ --subjects='S_DLQ.other,S_DLQ.billing'"},
		"letters pushed out":           {func() { letters.MaxMsgs = 10 }, "nats stream edit S_DLQ --discard=new"},
		"letters by work queue":        {func() { letters.Retention = jetstream.WorkQueuePolicy }, "nats stream edit S_DLQ --retention=limits"},
		"letters unconfirmed":          {func() { letters.NoAck = true }, "nats stream edit S_DLQ --ack"},
		"copies expire too early":      {func() { retry.MaxAge = 30 * time.Minute }, "nats stream edit S_RETRY --max-age=2h0m0s"},
		"copies by interest":           {func() { retry.Retention = jetstream.InterestPolicy }, "nats stream edit S_RETRY --retention=limits"},
		"gives up after 5":             {func() { main.MaxDeliver = 5 }, "nats consumer edit S billing --max-deliver=-1"},
		"backoff":                      {func() { main.BackOff, main.MaxDeliver = []time.Duration{time.Second}, 0 }, "nats consumer edit S billing --backoff=none"},
		"too few unacked":              {func() { main.MaxAckPending = 1000 }, "nats consumer edit S billing --max-pending=20000"},
		"acks all":                     {func() { main.AckPolicy = jetstream.AckAllPolicy }, "nats consumer rm S billing"},
		"headers only":                 {func() { main.HeadersOnly = true }, "nats consumer edit S billing --no-headers-only"},
		"deleted when idle":            {func() { main.InactiveThreshold = time.Hour }, "nats consumer edit S billing --inactive-threshold=0s"},
		"retry stands still":           {func() { copies.MaxAckPending = 1000 }, "nats consumer edit S_RETRY billing --max-pending=-1"},
		"retry reads others' too":      {func() { copies.FilterSubject = "" }, "nats consumer edit S_RETRY billing --filter=S_RETRY.billing"},
		"AckWait of less than 100 ms":  {func() { main.AckWait = 50 * time.Millisecond }, "nats consumer edit S billing --wait=30s"},
		"nothing":                      {func() {}, ""},
		"bounded letters, new refused": {func() { letters.MaxMsgs, letters.Discard = 10, jetstream.DiscardNew }, ""},
		"copies kept for long enough":  {func() { retry.MaxAge = 2 * time.Hour }, ""},
		"another AckWait":              {func() { main.AckWait = 5 * time.Second }, ""},
		"unlimited":                    {func() { main.MaxAckPending = -1 }, ""},
		"subjects by a star":           {func() { letters.Subjects = []string{"S_DLQ.*"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			keep := []any{letters, retry, main, copies}
			defer func() {
				letters, retry = keep[0].(jetstream.StreamConfig), keep[1].(jetstream.StreamConfig)
				main, copies = keep[2].(jetstream.ConsumerConfig), keep[3].(jetstream.ConsumerConfig)
			}()
			c.change()
			for _, s := range []jetstream.StreamConfig{{Name: "S", Subjects: []string{"S.>"}}, letters, retry} {
				if _, err := js.CreateStream(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				defer js.DeleteStream(t.Context(), s.Name)
			}
			before, err := js.CreateConsumer(t.Context(), "S", main)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := js.CreateConsumer(t.Context(), "S_RETRY", copies); err != nil {
				t.Fatal(err)
			}
			if c.mend == "" {
				s, err := b.Open(t.Context(), specOf("S"))
				if err != nil {
					t.Fatal(err)
				}
				_ = s.Close(t.Context())
			} else if fault := startError(t, b, specOf("S")); !strings.Contains(fault.Mend, c.mend) {
				t.Errorf("%v\nwant %s", fault, c.mend)
			}
			after, err := js.Consumer(t.Context(), "S", "billing")
			if err != nil || after.CachedInfo().Config.MaxAckPending != before.CachedInfo().Config.MaxAckPending {
				t.Errorf("it was changed: %v", err)
			}
		})
	}
}

// A retry stream read as a source would share its durable with the copies, and
// of each letter read there would be another letter.
func TestAConsumerDoesNotReadWhatItWrites(t *testing.T) {
	b := connect(t, Config{URL: natstest.Serve(t).ClientURL(), Create: true})
	for _, own := range []string{"ORDERS_DLQ", "ORDERS_RETRY"} {
		for _, topics := range [][]string{{"ORDERS", own}, {own, "ORDERS"}} {
			spec := specOf("ORDERS")
			spec.Topics = topics
			s, err := b.Open(t.Context(), spec)
			var fault *brokers.StartError
			if !errors.As(err, &fault) || !strings.Contains(fault.Wrong, "itself writes") {
				t.Errorf("%v: %v", topics, err)
			}
			if s != nil {
				_ = s.Close(t.Context())
			}
		}
	}
	spec := specOf("ORDERS_DLQ")
	spec.Consumer = "undertaker"
	openSource(t, b, spec) // somebody's letters, on purpose
}

func TestNamesThatNATSCannotHoldAreRefused(t *testing.T) {
	b := connect(t, Config{URL: natstest.Serve(t).ClientURL(), Create: true})
	for _, name := range []string{"", "a.b", "a b", "a*", "a>", "a/b", `a\b`, "a\tb", "a\x00b", "\xff", strings.Repeat("x", 241)} {
		spec := specOf("ORDERS")
		spec.Consumer = name
		startError(t, b, spec)
		startError(t, b, specOf(name))
	}
	spec := specOf("ORDERS")
	spec.Topics = []string{"ORDERS", "ORDERS"}
	startError(t, b, spec)
}

func TestAFullLetterStreamRefusesAndKeepsOldLetters(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "ORDERS_DLQ", Subjects: []string{"ORDERS_DLQ.>"}, MaxMsgs: 2, Discard: jetstream.DiscardNew,
	}); err != nil {
		t.Fatal(err)
	}
	b := connect(t, Config{URL: url, Create: true})
	openSource(t, b, specOf("ORDERS"))
	letter := brokers.Outgoing{Topic: "ORDERS_DLQ.billing", Value: []byte("x")}
	errs := b.Publish(t.Context(), []brokers.Outgoing{letter, letter, letter})
	if errs[0] != nil || errs[1] != nil || errs[2] == nil || errors.Is(errs[2], brokers.ErrUnknownOutcome) {
		t.Fatalf("published: %v", errs)
	}
	stream, err := js.Stream(t.Context(), "ORDERS_DLQ")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), []brokers.Outgoing{letter})[0]; err != nil {
		t.Fatalf("with room again: %v", err)
	}
}

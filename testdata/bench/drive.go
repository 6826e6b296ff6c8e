package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

func newSuite(flags ...string) (*suite, func(), error) {
	if err := prepareDisk(*dir); err != nil {
		return nil, nil, err
	}
	d, err := os.MkdirTemp(*dir, "run-")
	if err != nil {
		return nil, nil, err
	}
	abs, err := filepath.Abs(d)
	if err != nil {
		return nil, nil, err
	}
	*dir = abs
	return &suite{flags: flags, results: map[string][]result{}}, func() { os.RemoveAll(abs) }, nil
}

// latency runs the two sides at a rate and says how much later the handler
// begins with onceward than in the bare loop.
func (s *suite) latency(bare, ours string, perSecond, count int) (p50, p99 float64, err error) {
	flags := []string{"-rate", strconv.Itoa(perSecond)}
	b, o := fmt.Sprintf("%s-%d", bare, perSecond), fmt.Sprintf("%s-%d", ours, perSecond)
	if err := s.rounds(1, at(bare, count, flags...).named(b), at(ours, count, flags...).named(o)); err != nil {
		return 0, 0, err
	}
	rb, ro := s.results[b][0], s.results[o][0]
	return ro.P50 - rb.P50, ro.P99 - rb.P99, nil
}

func driveNATS() error {
	const messages, poisoned = 500_000, 100_000
	s, clean, err := newSuite()
	if err != nil {
		return err
	}
	defer clean()
	url, pid, stop, err := startNATS(filepath.Join(*dir, "nats"))
	if err != nil {
		return err
	}
	defer stop()
	*natsURL = url
	s.flags = []string{"-nats", url, "-servers", strconv.Itoa(pid)}
	natsFill("ORDERS", scaled(messages))
	natsFill("POISON", scaled(poisoned))

	all, some := []string{"-stream", "ORDERS"}, []string{"-stream", "POISON"}
	if err := s.rounds(*rounds,
		at("nats-bare", messages, all...),
		at("nats-onceward", messages, all...),
		at("nats-watermill", messages, all...),
		at("nats-onceward-poison", poisoned, some...).named("none failing"),
		at("nats-onceward-poison", poisoned, append(some, "-fail")...).named("1 % failing for ever"),
	); err != nil {
		return err
	}
	p50at10, p99at10, err := s.latency("nats-bare-latency", "nats-onceward-latency", 10, 300)
	if err != nil {
		return err
	}
	p50at1000, p99at1000, err := s.latency("nats-bare-latency", "nats-onceward-latency", 1000, 20_000)
	if err != nil {
		return err
	}
	report([]figure{
		{"nats_ratio", s.ratio("nats-onceward", "nats-bare", perSecond)},
		{"watermill_ratio", s.ratio("nats-onceward", "nats-watermill", perSecond)},
		{"poison_ratio", s.ratio("none failing", "1 % failing for ever", seconds)},
		{"p50_ms_10", p50at10}, {"p99_ms_10", p99at10}, {"p50_ms_1000", p50at1000}, {"p99_ms_1000", p99at1000},
	}, map[string]string{
		"nats_ratio":      "of a bare Consume and Ack loop; at least 0.5, target 0.75",
		"watermill_ratio": "of Watermill, acks not awaited, deduplicator in memory; at least 1.2, target 1.8",
		"poison_ratio":    "of its own pace when 1 % fail for ever; at least 0.5",
	})
	return nil
}

func driveKafka() error {
	const messages, poisoned, slow = 1_000_000, 100_000, 20_000
	s, clean, err := newSuite()
	if err != nil {
		return err
	}
	defer clean()
	script, err := filepath.Abs("../servers/kafka")
	if err != nil {
		return err
	}
	server := filepath.Join(*dir, "kafka")
	out, err := exec.Command(script, "start", server, "--port", "0").Output()
	if err != nil {
		return fmt.Errorf("kafka start: %w", err)
	}
	defer exec.Command(script, "stop", server).Run()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	*kafkaAt = lines[len(lines)-1]
	pid, err := os.ReadFile(filepath.Join(server, "1", "pid"))
	if err != nil {
		return err
	}
	s.flags = []string{"-kafka", *kafkaAt, "-servers", strings.TrimSpace(string(pid))}
	kafkaFill("orders", scaled(messages))
	kafkaFill("poison", scaled(poisoned))
	kafkaTopic(deadTopic, 1)

	all, some := []string{"-stream", "orders"}, []string{"-stream", "poison"}
	if err := s.rounds(*rounds,
		at("kafka-reader", messages, all...),
		at("kafka-onceward", messages, all...),
		at("kafka-watermill", messages, all...),
		at("kafka-watermill-bolt", slow, all...),
		at("kafka-onceward-poison", poisoned, some...).named("none failing"),
		at("kafka-onceward-poison", poisoned, append(some, "-fail")...).named("1 % failing for ever"),
	); err != nil {
		return err
	}
	p50at10, p99at10, err := s.latency("kafka-reader-latency", "kafka-onceward-latency", 10, 300)
	if err != nil {
		return err
	}
	p50at1000, p99at1000, err := s.latency("kafka-reader-latency", "kafka-onceward-latency", 1000, 20_000)
	if err != nil {
		return err
	}
	report([]figure{
		{"reader_ratio", s.ratio("kafka-onceward", "kafka-reader", perSecond)},
		{"watermill_ratio", s.ratio("kafka-onceward", "kafka-watermill", perSecond)},
		{"watermill_bolt_ratio", s.ratio("kafka-onceward", "kafka-watermill-bolt", perSecond)},
		{"poison_ratio", s.ratio("none failing", "1 % failing for ever", seconds)},
		{"cpu_us_per_message", s.median("kafka-onceward", func(r result) float64 { return r.CPUMicros })},
		{"allocs_per_message", s.median("kafka-onceward", func(r result) float64 { return r.Allocs })},
		{"peak_rss_mb", s.median("kafka-onceward", func(r result) float64 { return r.PeakRSS })},
		{"p50_ms_10", p50at10}, {"p99_ms_10", p99at10}, {"p50_ms_1000", p50at1000}, {"p99_ms_1000", p99at1000},
	}, map[string]string{
		"reader_ratio":         "of a bare Reader loop; at least 0.35, target 0.7",
		"watermill_ratio":      "of Watermill without middleware; at least 1.5, target 3",
		"watermill_bolt_ratio": "of Watermill with Retry, PoisonQueue and a Deduplicator on bbolt; at least 70, target 150",
		"poison_ratio":         "of its own pace when 1 % fail for ever; at least 0.5, target 0.9",
	})
	return nil
}

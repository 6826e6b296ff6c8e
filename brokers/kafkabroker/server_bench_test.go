//go:build servers

package kafkabroker_test

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/brokers"
)

// BenchmarkReceive reads and acknowledges messages of 200 B in 4 partitions,
// and beside it what kafka-go's Reader needs for reading them.
func BenchmarkReceive(b *testing.B) {
	const n = 300_000
	addrs := server(b)
	o := newOther(b, addrs)
	topic := o.newTopic(b, 4)
	fill(b, o, topic, n)
	b.Run("onceward", func(b *testing.B) {
		for b.Loop() {
			cfg := quick(addrs...)
			cfg.CommitInterval = time.Second
			sp := spec()
			sp.Consumer, sp.Topics = fmt.Sprint("bench", time.Now().UnixNano()), []string{topic}
			r := open(b, connect(b, cfg), sp)
			measure(b, n, func() int {
				ds, err := r.Receive(b.Context(), brokers.Limit{Messages: 1000, Bytes: 64 << 20})
				if err == nil {
					err = r.Ack(ds)
				}
				if err != nil {
					b.Fatal(err)
				}
				return len(ds)
			})
			r.close()
		}
	})
	b.Run("reader", func(b *testing.B) {
		for b.Loop() {
			r := kafka.NewReader(kafka.ReaderConfig{
				Brokers: addrs, GroupID: fmt.Sprint("reader", time.Now().UnixNano()), Topic: topic,
				CommitInterval: time.Second, StartOffset: kafka.FirstOffset, MaxBytes: 10 << 20, QueueCapacity: 1000,
			})
			measure(b, n, func() int {
				m, err := r.FetchMessage(b.Context())
				if err == nil {
					err = r.CommitMessages(b.Context(), m)
				}
				if err != nil {
					b.Fatal(err)
				}
				return 1
			})
			r.Close()
		}
	})
}

// BenchmarkBrowse looks through 300,000 messages of 200 B in 4 partitions, and at
// a page of 100.
func BenchmarkBrowse(b *testing.B) {
	const n = 300_000
	addrs := server(b)
	o := newOther(b, addrs)
	topic := o.newTopic(b, 4)
	fill(b, o, topic, n)
	browser := connect(b, quick(addrs...)).(brokers.Browser)
	for name, want := range map[string]int{"all": n, "page": 100} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				seen := 0
				for _, err := range browser.Browse(b.Context(), topic, brokers.From{}) {
					if err != nil {
						b.Fatal(err)
					}
					if seen++; seen == want {
						break
					}
				}
				if seen != want {
					b.Fatal(seen)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*want), "ns/message")
		})
	}
}

func fill(b testing.TB, o *other, topic string, n int) {
	value := make([]byte, 200)
	fault := make(chan error, 1)
	for i := range n {
		o.client.Produce(b.Context(), &kgo.Record{Topic: topic, Partition: int32(i / 100 % 4), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case fault <- err:
				default:
				}
			}
		})
	}
	if err := o.client.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	select {
	case err := <-fault:
		b.Fatal(err)
	default:
	}
}

// measure counts from the first message on: joining is not what is measured.
func measure(b *testing.B, n int, next func() int) {
	got := next()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := cpuTime(b), time.Now()
	for got < n {
		got += next()
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(n), "ns/message")
	b.ReportMetric(float64((cpuTime(b)-cpu).Nanoseconds())/float64(n), "cpu-ns/message")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(n), "allocs/message")
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

//go:build unix

package natsbroker

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/natstest"
)

// BenchmarkReceiveAndAck compares the adapter with the bare loop of nats.go on
// the same server, which is a process of its own. On a busy machine compare
// the client's CPU time, cpu-ns/op.
//
//	go test -run - -bench ReceiveAndAck -benchtime 300000x -count 5 ./brokers/natsbroker
func BenchmarkReceiveAndAck(b *testing.B) {
	url := startProcess(b).url
	js := natstest.Client(b, url)
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"BENCH.>"}, Storage: jetstream.FileStorage}); err != nil {
		b.Fatal(err)
	}
	stored, runs := 0, 0
	fill := func(b *testing.B) {
		for ; stored < b.N; stored++ {
			m := &nats.Msg{Subject: "BENCH.x", Data: make([]byte, 200), Header: nats.Header{"Biz-Id": {"order-000000"}}}
			if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
				b.Fatal(err)
			}
		}
		<-js.PublishAsyncComplete()
		runs++
	}
	b.Run("bare", func(b *testing.B) {
		fill(b)
		bare(b, url, fmt.Sprintf("bare%d", runs))
	})
	b.Run("onceward", func(b *testing.B) {
		fill(b)
		adapter(b, url, fmt.Sprintf("ours%d", runs))
	})
}

func bare(b *testing.B, url, durable string) {
	nc, err := nats.Connect(url)
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, _ := jetstream.New(nc)
	c, err := js.CreateConsumer(b.Context(), "BENCH", jetstream.ConsumerConfig{Durable: durable, AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		b.Fatal(err)
	}
	var n atomic.Int64
	done := make(chan struct{})
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	consuming, err := c.Consume(func(m jetstream.Msg) {
		_ = m.Headers().Get("Biz-Id")
		if err := m.Ack(); err != nil {
			b.Error(err)
		}
		if n.Add(1) == int64(b.N) {
			close(done)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	<-done
	_ = nc.Flush()
	b.StopTimer()
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
	consuming.Stop()
	_ = js.DeleteConsumer(b.Context(), "BENCH", durable)
}

func adapter(b *testing.B, url, durable string) {
	broker := connect(b, Config{URL: url, Create: true})
	spec := specOf("BENCH")
	spec.Consumer = durable
	s := openSource(b, broker, spec)
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	batches := 0
	for n := 0; n < b.N; batches++ {
		ds, err := s.Receive(context.Background(), brokers.Limit{Messages: 500, Bytes: 8 << 20})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Ack(ds); err != nil {
			b.Fatal(err)
		}
		n += len(ds)
	}
	_ = broker.nc.Flush()
	b.StopTimer()
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/float64(batches), "messages/batch")
	_ = broker.js.DeleteConsumer(b.Context(), "BENCH", durable)
}

// BenchmarkBrowse looks through a stream of 300,000 messages of 200 B, at a page
// of 100 of it, and through a work queue of 20,000, which is read one by one.
func BenchmarkBrowse(b *testing.B) {
	const n, few = 300_000, 20_000
	url := startProcess(b).url
	js := natstest.Client(b, url)
	for name, c := range map[string]struct {
		retention jetstream.RetentionPolicy
		n         int
	}{"ALL": {jetstream.LimitsPolicy, n}, "QUEUE": {jetstream.WorkQueuePolicy, few}} {
		if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Retention: c.retention}); err != nil {
			b.Fatal(err)
		}
		for range c.n {
			if _, err := js.PublishAsync(name+".x", make([]byte, 200), jetstream.WithStallWait(time.Minute)); err != nil {
				b.Fatal(err)
			}
		}
		<-js.PublishAsyncComplete()
	}
	broker := connect(b, Config{URL: url})
	for _, c := range []struct {
		name, stream string
		n            int
	}{{"all", "ALL", n}, {"page", "ALL", 100}, {"queue", "QUEUE", few}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				seen := 0
				for _, err := range broker.Browse(b.Context(), c.stream, brokers.From{}) {
					if err != nil {
						b.Fatal(err)
					}
					if seen++; seen == c.n {
						break
					}
				}
				if seen != c.n {
					b.Fatal(seen)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.n), "ns/message")
		})
	}
}

// cpu is what this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

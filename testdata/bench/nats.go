package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var ctx = context.Background()

func init() {
	cases["nats-bare"] = func(m *meter) { natsBare(m, func(jetstream.Msg) bool { return true }) }
	cases["nats-bare-latency"] = natsBareLatency
}

func natsConnect() (*nats.Conn, jetstream.JetStream) {
	nc, err := nats.Connect(*natsURL)
	must(err)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4000), jetstream.WithPublishAsyncTimeout(time.Minute))
	must(err)
	return nc, js
}

// natsFill makes a stream with count orders.
func natsFill(name string, count int) {
	nc, js := natsConnect()
	defer nc.Close()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.FileStorage})
	must(err)
	orders(count, func(i int, o order) {
		x := nats.NewMsg(name + "." + strconv.Itoa(i%16))
		x.Header[idHeader] = []string{o.id}
		if o.bad {
			x.Header[badHeader] = []string{"1"}
		}
		x.Data = o.value
		_, err := js.PublishMsgAsync(x, jetstream.WithStallWait(time.Minute))
		must(err)
	})
	<-js.PublishAsyncComplete()
	s, err := js.Stream(ctx, name)
	must(err)
	info, err := s.Info(ctx)
	must(err)
	if info.State.Msgs != uint64(count) {
		panic(fmt.Sprintf("stream %s has %d of %d messages", name, info.State.Msgs, count))
	}
}

// durable makes a fresh one with the server's defaults (MaxAckPending 1,000,
// AckWait 30 s).
func durable(js jetstream.JetStream, m *meter) jetstream.Consumer {
	c, err := js.CreateConsumer(ctx, *stream, jetstream.ConsumerConfig{Durable: freshName(), AckPolicy: jetstream.AckExplicitPolicy})
	must(err)
	m.after = func() {
		// All must have been acknowledged, or the loop was not done.
		deadline := time.Now().Add(10 * time.Second)
		for {
			info, err := c.Info(ctx)
			must(err)
			if info.NumAckPending == 0 || time.Now().After(deadline) {
				if info.NumAckPending > 0 {
					fmt.Fprintln(os.Stderr, info.NumAckPending, "messages are not acknowledged")
				}
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		must(js.DeleteConsumer(ctx, *stream, c.CachedInfo().Name))
	}
	return c
}

func freshName() string { return fmt.Sprintf("bench-%d", time.Now().UnixNano()) }

// natsBare is the loop of the documentation: Consume, handle, Ack.
// handle says whether a message counts.
func natsBare(m *meter, handle func(jetstream.Msg) bool) {
	nc, js := natsConnect()
	c := durable(js, m)
	var k atomic.Int64
	done := make(chan struct{})
	cc, err := c.Consume(func(x jetstream.Msg) {
		m.first()
		if x.Headers().Get(idHeader) == "" {
			panic("no id")
		}
		counts := handle(x)
		must(x.Ack())
		if counts && k.Add(1) == int64(*n) {
			close(done)
		}
	})
	must(err)
	<-done
	must(nc.Flush())
	m.last(*n)
	cc.Stop()
}

func natsBareLatency(m *meter) {
	p := natsPaced(m)
	natsBare(m, func(x jetstream.Msg) bool { return p.arrived(x.Headers().Get(atHeader)) })
	checked := m.after
	m.after = func() {
		checked()
		natsDrop()
	}
}

// natsPaced makes a stream of its own and publishes into it.
func natsPaced(m *meter) *pacer {
	*stream = "L" + strconv.FormatInt(time.Now().UnixNano(), 36)
	_, js := natsConnect()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: *stream, Subjects: []string{*stream + ".>"}, Storage: jetstream.FileStorage})
	must(err)
	subject := *stream + ".0"
	return pace(m, func(id, seq string, value []byte) {
		x := nats.NewMsg(subject)
		x.Header[idHeader] = []string{id}
		x.Header[atHeader] = []string{seq}
		x.Data = value
		_, err := js.PublishMsgAsync(x)
		must(err)
	})
}

func natsDrop() {
	_, js := natsConnect()
	must(js.DeleteStream(ctx, *stream))
}

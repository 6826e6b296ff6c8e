package kafkabroker_test

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers"
)

// swallowing is a connection on which nothing arrives any more once it is silent.
type swallowing struct {
	net.Conn
	silent *atomic.Bool
}

func (c *swallowing) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// A drain that is over commits once more, and has some seconds for that; who
// closes may have less.
func TestCloseEndsWithItsContextAlsoWhileADrainCannotCommit(t *testing.T) {
	t.Parallel()
	c := fake(t)
	cfg := quick(c.ListenAddrs()...)
	var silent atomic.Bool
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &swallowing{conn, &silent}, err
	}
	cfg.CommitInterval = time.Minute
	sp := spec()
	var once sync.Once
	draining := make(chan struct{})
	sp.Events.Revoked = func(context.Context, []*brokers.Lane) {
		silent.Store(true)
		once.Do(func() { close(draining) })
	}
	r := open(t, connect(t, cfg), sp)
	eventually(t, "it owns all", func() bool { return r.owns() == 4 })
	publish(t, connect(t, quick(c.ListenAddrs()...)), "orders", 40)
	if err := r.Ack(r.take(40)); err != nil {
		t.Fatal(err)
	}
	go func() { // it waits for what the first one does not give up
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if s, err := connect(t, quick(c.ListenAddrs()...)).Open(ctx, spec()); err == nil {
			_ = s.Close(ctx)
		}
	}()
	<-draining
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := r.Close(ctx); err == nil {
		t.Error("no error, and the positions are not committed")
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestAPartitionWithoutALeaderIsNoReasonForAStorm(t *testing.T) {
	t.Parallel()
	c := fake(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "one"))
	cfg := quick(c.ListenAddrs()...)
	cfg.WatchInterval = time.Second
	r := open(t, connect(t, cfg), on("one"))
	host, port, _ := net.SplitHostPort(c.ListenAddrs()[0])
	number, _ := strconv.Atoi(port)
	var asked atomic.Int32
	var led atomic.Bool
	c.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.MetadataRequest)
		if led.Load() || len(req.Topics) == 0 {
			return nil, nil, false
		}
		asked.Add(1)
		res := req.ResponseKind().(*kmsg.MetadataResponse)
		rb := kmsg.NewMetadataResponseBroker()
		rb.Host, rb.Port = host, int32(number)
		res.Brokers = append(res.Brokers, rb)
		for _, t := range req.Topics {
			rt := kmsg.NewMetadataResponseTopic()
			rt.Topic = t.Topic
			rp := kmsg.NewMetadataResponseTopicPartition()
			rp.Leader, rp.ErrorCode = -1, kerr.LeaderNotAvailable.Code
			rt.Partitions = append(rt.Partitions, rp)
			res.Topics = append(res.Topics, rt)
		}
		return res, nil, true
	})
	time.Sleep(4 * time.Second)
	if n := asked.Load(); n < 2 || n > 12 {
		t.Errorf("asked for the leader %d times in 4 s", n)
	}
	led.Store(true)
	publish(t, connect(t, quick(c.ListenAddrs()...)), "one", 3)
	r.take(3)
}

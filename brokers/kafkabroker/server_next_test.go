//go:build servers

package kafkabroker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/brokers"
)

// Members of the next group protocol (KIP-848) are other software, and are not
// in the lists where members are looked for otherwise.
func TestMembersOfTheNextProtocolAreFoundAndWorkedBeside(t *testing.T) {
	o := newOther(t, server(t))
	topic := o.newTopic(t, 2)
	o.produce(t, topic, outgoing("m", 0, 3)...)
	sp := on(topic)
	c, err := kgo.NewClient(kgo.SeedBrokers(o.addrs...), kgo.ConsumerGroup(sp.Consumer), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.WithContext(context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true))) //nolint:staticcheck // franz-go's key is a string
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n := c.PollFetches(t.Context()).NumRecords(); n == 0 {
		t.Fatal("the other one reads nothing")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	began := time.Now()
	_, err = connect(t, quick(o.addrs...)).Open(ctx, sp)
	t.Logf("after %v: %v", time.Since(began).Round(time.Millisecond), err)
	var fault *brokers.StartError
	if !errors.As(err, &fault) || !strings.Contains(err.Error(), "kgo") {
		t.Fatalf("error %v", err)
	}
	cfg := quick(o.addrs...)
	cfg.SessionTimeout, cfg.AllowForeignMembers = 6*time.Second, true
	r := open(t, connect(t, cfg), sp)
	eventually(t, "it has a share", func() bool {
		once, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		defer stop()
		c.PollFetches(once)
		return r.owns() == 1
	})
	for p := range int32(2) {
		o.produce(t, topic, outgoing("shared", p, 5)...)
	}
	if err := r.Ack(r.take(5)); err != nil {
		t.Error(err)
	}
}

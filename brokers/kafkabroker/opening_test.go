package kafkabroker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/group"
)

// A heartbeat may hear that the membership is lost between an assignment and
// its lanes: their claims are over when they begin.
func TestALaneOfAClaimThatIsOverNeverBegins(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b, err := Connect(t.Context(), Config{Brokers: c.ListenAddrs(), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	assigned := make(chan *brokers.Lane, 10)
	src, err := b.Open(t.Context(), brokers.Spec{
		Consumer: "billing", Topics: []string{"orders"}, StartFrom: brokers.Start{Kind: brokers.StartEarliest},
		Unfinished: brokers.Limit{Messages: 10, Bytes: 1 << 20}, LongestWait: time.Second,
		Events: brokers.Events{Assigned: func(ls []*brokers.Lane) error {
			for _, l := range ls {
				assigned <- l
			}
			return nil
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close(t.Context())
	for range 2 { // the topic and its retry topic
		<-assigned
	}
	s := src.(*source)
	lanes := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.lanes)
	}
	if lanes() != 2 {
		t.Fatalf("%d lanes", lanes())
	}
	s.assigned([]group.Claim{{Partition: coop.Partition{Topic: "orders"}, Epoch: 99}})
	for end := time.Now().Add(5 * time.Second); lanes() > 2 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if lanes() != 2 || len(assigned) > 0 {
		t.Errorf("%d lanes, %d more assigned", lanes(), len(assigned))
	}
}

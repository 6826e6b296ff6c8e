package kafkabroker

import (
	"bytes"
	"io"
	"testing"

	"github.com/onceward/onceward/brokers"
)

// sink takes a request and gives no answer.
type sink struct {
	bytes.Buffer
}

func (*sink) Read([]byte) (int, error) { return 0, io.EOF }

// An exchange may begin when its caller has gone, and may use the bytes of its
// messages for something else.
func TestARequestReadsNothingOfItsMessagesLater(t *testing.T) {
	m := brokers.Outgoing{Topic: "orders", Value: []byte("before")}
	r := newProduceRequest("c", []*batch{{topic: "orders", items: []*item{{m: &m}}}})
	copy(m.Value, "after!")
	var to sink
	if _, err := r.RawExchange(&to); err == nil {
		t.Error("no error without an answer")
	}
	if !bytes.Contains(to.Bytes(), []byte("before")) {
		t.Errorf("sent %q", to.Bytes())
	}
}

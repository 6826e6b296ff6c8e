package cluster

import (
	"bytes"
	"io"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
)

// words writes something and waits for no answer.
type words struct{ exchanger }

func (words) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	_, err := io.WriteString(rw, "words")
	return nil, err
}

func TestWhatNobodyWaitsForIsNotSent(t *testing.T) {
	var sent bytes.Buffer
	w := &waited{exchanger: words{}}
	if !w.abandon() {
		t.Error("it was not sent, and is not told so")
	}
	if _, err := w.RawExchange(&sent); err == nil || sent.Len() > 0 {
		t.Errorf("sent %q, error %v", sent.String(), err)
	}
	w = &waited{exchanger: words{}}
	if _, err := w.RawExchange(&sent); err != nil || sent.String() != "words" {
		t.Errorf("sent %q, error %v", sent.String(), err)
	}
	if w.abandon() {
		t.Error("it was sent, and is not told so")
	}
}

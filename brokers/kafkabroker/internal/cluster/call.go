package cluster

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/segmentio/kafka-go/protocol"
)

// exchange sends one of kafka-go's messages on the connection it is given. It
// hides what the message says about routing, and turns a panic of the decoder
// into an error: it would be one of kafka-go's goroutine, and end the process.
type exchange struct {
	msg     protocol.Message
	client  string
	version int16
}

// reply hides what an answer is from the Transport, which would wait until its
// own metadata shows topics that were made.
type reply struct{ protocol.Message }

func (x *exchange) ApiKey() protocol.ApiKey { return x.msg.ApiKey() }

// Required keeps the version that both sides know.
func (x *exchange) Required(versions map[protocol.ApiKey]int16) bool {
	x.version = versions[x.msg.ApiKey()]
	return true
}

func (x *exchange) RawExchange(rw io.ReadWriter) (res protocol.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decode the answer to %v v%d: %v", x.msg.ApiKey(), x.version, p)
		}
	}()
	if err := protocol.WriteRequest(rw, x.version, 1, x.client, x.msg); err != nil {
		return nil, err
	}
	_, res, err = protocol.ReadResponse(rw, x.msg.ApiKey(), x.version)
	if err != nil {
		return nil, err
	}
	return reply{res}, nil
}

// exchanger is a message that does its own exchange.
type exchanger interface {
	protocol.Message
	protocol.RawExchanger
}

// waited is a message that is sent only while somebody waits for its answer:
// kafka-go begins an exchange also when its caller has gone.
type waited struct {
	exchanger
	decided atomic.Bool // whether it is sent
}

var errAbandoned = errors.New("nobody waits for the answer any more")

func (w *waited) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if w.decided.Swap(true) {
		return nil, errAbandoned
	}
	return w.exchanger.RawExchange(rw)
}

// abandon says whether nothing of the message was sent, nor ever will be.
func (w *waited) abandon() bool { return !w.decided.Swap(true) }

// NotSentError is that of a call of which the broker has not seen anything, nor
// ever will.
type NotSentError struct{ Err error }

func (e *NotSentError) Error() string { return e.Err.Error() }

func (e *NotSentError) Unwrap() error { return e.Err }

package storetest

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/onceward/onceward/dedup"
)

// maxFrame is the most bytes that one side reads for one message: a thousand
// operations with the largest results. More is taken for garbage.
const maxFrame = 128 << 20

// scanFrame is how many records or letters of a scan travel together.
const scanFrame = 256

type call uint8

const (
	callInfo call = iota + 1
	callApply
	callLookup
	callLetters
	callPrefixes
	callSweep
	callScan
	callScanLetters
)

// request and response are the messages. A scan is answered by several
// responses, all but the last with More.
type request struct {
	Call     call
	Ops      []dedup.Op
	Keys     []dedup.Key
	IDs      []string
	Consumer string
	Limit    int
}

type response struct {
	Answers   []dedup.Answer // without Err, see Faults
	Faults    map[int]wireError
	Records   []dedup.Record
	Letters   []dedup.Letter
	Positions []dedup.Position
	Swept     dedup.Swept
	Info      dedup.Info
	More      bool
	Err       *wireError
}

// wireError is an error as it travels: what it says, and which it is.
type wireError struct {
	Text    string
	Is      string
	Damaged *dedup.DamagedError
}

var known = map[string]error{
	"closed": dedup.ErrClosed, "full": dedup.ErrFull, "invalid": dedup.ErrInvalidOp,
}

func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	w := &wireError{Text: err.Error()}
	_ = errors.As(err, &w.Damaged)
	for name, e := range known {
		if errors.Is(err, e) {
			w.Is = name
		}
	}
	return w
}

func (w *wireError) err() error {
	switch {
	case w == nil:
		return nil
	case w.Damaged != nil:
		return w.Damaged
	}
	return &remoteError{text: w.Text, is: known[w.Is]}
}

// remoteError is an error of the store behind the wire.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

// wire is one connection with its codecs. One call uses it at a time.
type wire struct {
	net.Conn
	limit io.LimitedReader
	enc   *gob.Encoder
	dec   *gob.Decoder
}

func newWire(c net.Conn) *wire {
	w := &wire{Conn: c, limit: io.LimitedReader{R: c}, enc: gob.NewEncoder(c)}
	w.dec = gob.NewDecoder(&w.limit)
	return w
}

func (w *wire) send(message any) error { return w.enc.Encode(message) }

func (w *wire) receive(message any) error {
	w.limit.N = maxFrame
	err := w.dec.Decode(message)
	if w.limit.N <= 0 {
		return fmt.Errorf("message of more than %d bytes", maxFrame)
	}
	return err
}

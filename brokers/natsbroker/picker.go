package natsbroker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
)

// picker asks the leader of the stream for one message after the other, which
// changes nothing in any kind of stream.
type picker struct{ *look }

// picked is the server's answer.
//
// Source: JSApiMsgGetResponse of nats-server.
type picked struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject  string    `json:"subject"`
		Sequence uint64    `json:"seq"`
		Header   []byte    `json:"hdrs"`
		Data     []byte    `json:"data"`
		Time     time.Time `json:"time"`
	} `json:"message"`
}

// read implements [reader].
func (p *picker) read(ctx context.Context) (found, error) {
	return p.pick(ctx, p.next, p.subjects())
}

func (*picker) close() {}

// pick gets the first message from a sequence on whose subject fits.
//
// Errors besides: io.EOF when there is none.
func (l *look) pick(ctx context.Context, sequence uint64, filter string) (found, error) {
	body, err := json.Marshal(map[string]any{"seq": sequence, "next_by_subj": filter})
	if err != nil {
		return found{}, err
	}
	var answer picked
	err = l.b.call(ctx, func(ctx context.Context) error {
		m, err := l.b.nc.RequestWithContext(ctx, l.b.api+"STREAM.MSG.GET."+l.stream, body)
		if err != nil {
			return err
		}
		return json.Unmarshal(m.Data, &answer)
	})
	switch e := answer.Error; {
	case err != nil:
		return found{}, fmt.Errorf("get message %d: %w", sequence, err)
	case e == nil && answer.Message == nil:
		return found{}, fmt.Errorf("get message %d: the answer is empty", sequence)
	case e == nil:
	case e.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return found{}, io.EOF
	case e.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return found{}, fmt.Errorf("%w any more: stream %q was deleted", brokers.ErrNoDestination, l.stream)
	default:
		return found{}, fmt.Errorf("get message %d: %w", sequence, e)
	}
	m := answer.Message
	f := found{sequence: m.Sequence, subject: m.Subject, data: m.Data, stored: m.Time}
	if f.data == nil {
		f.data = []byte{}
	}
	if len(m.Header) > 0 {
		if f.header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return found{}, fmt.Errorf("message %d: %w", m.Sequence, err)
		}
	}
	return f, nil
}

// skip moves next behind what was stored before a time, by halving: the server
// has no call for it that all its versions know.
func (l *look) skip(ctx context.Context, since time.Time) error {
	from, to := l.next, l.end+1
	for from < to {
		middle := from + (to-from)/2
		m, err := l.pick(ctx, middle, ">")
		switch {
		case err == io.EOF, err == nil && !m.stored.Before(since):
			to = middle
		case err != nil:
			return err
		default:
			from = m.sequence + 1
		}
	}
	l.next = from
	return nil
}

package via

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/onceward/onceward/internal/adminapi"
)

// lines asks and yields the lines of a stream, without those that only say that
// it goes on, and the last one. An error comes once, last; without one the
// stream was complete.
func (c *Client) lines(ctx context.Context, q request) iter.Seq2[*adminapi.Line, error] {
	return func(yield func(*adminapi.Line, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		answer, err := c.ask(ctx, q)
		if err != nil {
			yield(nil, err)
			return
		}
		defer answer.Body.Close()
		silent := time.AfterFunc(silentFor, func() { cancel(errSilent) })
		defer silent.Stop()
		in := bufio.NewReaderSize(answer.Body, 64<<10)
		var count int64
		var buffer []byte
		for {
			buffer, err = readLine(in, buffer[:0])
			silent.Stop() // the caller may take its time
			if err != nil {
				yield(nil, c.ended(ctx, err))
				return
			}
			var line adminapi.Line
			if err := c.decode(buffer, &line); err != nil {
				yield(nil, err)
				return
			}
			switch {
			case line.Error != nil:
				yield(nil, line.Error.Err())
				return
			case line.End && (line.Count == nil || *line.Count != count):
				yield(nil, c.fail(true, fmt.Sprintf("%v: %d parts came", ErrCut, count), ErrCut))
				return
			case line.End:
				return
			case line == adminapi.Line{}:
				yield(nil, c.fail(true, fmt.Sprintf("%v: it is newer than this command, and answers with what is not known here", ErrVersion), ErrVersion))
				return
			case !line.Alive:
				if line.Lane == nil {
					count++
				}
				if !yield(&line, nil) {
					return
				}
			}
			silent.Reset(silentFor)
		}
	}
}

var (
	errSilent   = fmt.Errorf("nothing came for %v", silentFor)
	errLongLine = fmt.Errorf("a line of the answer is longer than %d bytes", adminapi.MaxLine)
)

// ended is the error of a stream without a last line.
func (c *Client) ended(ctx context.Context, err error) *Error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errSilent):
		return c.fail(true, fmt.Sprintf("%v: %v", ErrCut, cause), ErrCut)
	case cause != nil:
		return c.unreached(ctx, true, cause)
	case errors.Is(err, errLongLine):
		return c.fail(true, err.Error(), ErrNotOnceward)
	}
	return c.fail(true, fmt.Sprintf("%v: %s", ErrCut, clean(err.Error())), ErrCut)
}

// readLine appends the next line without its end to b.
func readLine(in *bufio.Reader, b []byte) ([]byte, error) {
	for {
		part, err := in.ReadSlice('\n')
		b = append(b, part...)
		switch {
		case len(b) > adminapi.MaxLine:
			return b, errLongLine
		case err == nil:
			return b[:len(b)-1], nil
		case errors.Is(err, io.EOF):
			return b, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return b, err
		}
	}
}

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// doneBefore is one operation to be marked.
type doneBefore struct {
	Scope string    `json:"scope"`
	ID    string    `json:"id"`
	At    time.Time `json:"at"`

	line    int  // of the file; 0 from Redis
	notDone bool // by its record, where it was exported
}

// place is where the operation stands, the n-th of all.
func (d *doneBefore) place(n int) string {
	if d.line > 0 {
		return fmt.Sprintf("line %d", d.line)
	}
	return fmt.Sprintf("operation %d", n)
}

// faulty is an operation, or a line, that is none: called again, it is none
// again.
type faulty struct{ error }

func (f faulty) Unwrap() error { return f.error }

const wantedLine = `want {"scope":…,"id":…,"at":…}, or a line of "record export"`

func (in *importing) open(ctx context.Context, a *app, args []string) (iter.Seq2[doneBefore, error], error) {
	if len(args) == 0 {
		return in.fromRedis(ctx, a)
	}
	if args[0] == "-" {
		return lines(a.Stdin), nil
	}
	file, err := os.Open(args[0])
	if err != nil {
		return nil, err
	}
	return func(yield func(doneBefore, error) bool) {
		defer file.Close() // it was only read
		lines(file)(yield)
	}, nil
}

// maxImportLine is the largest record that is exported: sixteen effects with an
// outcome of the largest size have 1.5 MiB.
const maxImportLine = 4 << 20

func lines(r io.Reader) iter.Seq2[doneBefore, error] {
	return func(yield func(doneBefore, error) bool) {
		in := bufio.NewScanner(r)
		in.Buffer(nil, maxImportLine)
		n := 0
		for in.Scan() {
			n++
			if len(bytes.TrimSpace(in.Bytes())) == 0 {
				continue
			}
			d, err := readDone(in.Bytes())
			if d.line = n; err != nil {
				err = faulty{fmt.Errorf("line %d: %w; %s", n, err, wantedLine)}
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
		err := in.Err()
		switch {
		case errors.Is(err, bufio.ErrTooLong):
			yield(doneBefore{}, faulty{fmt.Errorf("line %d is longer than %d bytes", n+1, maxImportLine)})
		case err != nil:
			yield(doneBefore{}, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
}

// readDone reads a line: an operation, or its record as it was exported.
func readDone(line []byte) (d doneBefore, err error) {
	var exported struct {
		Key json.RawMessage `json:"key"`
	}
	if json.Unmarshal(line, &exported) == nil && bytes.HasPrefix(exported.Key, []byte("{")) {
		var r adminapi.Record
		if err := adminapi.DecodeAnswer(line, &r); err != nil {
			return d, err
		}
		return ofRecord(r.Dedup()), nil
	}
	strict := json.NewDecoder(bytes.NewReader(line))
	strict.DisallowUnknownFields()
	err = strict.Decode(&d)
	var form *json.SyntaxError
	switch {
	case errors.As(err, &form), errors.Is(err, io.ErrUnexpectedEOF):
		return d, errors.New("it is no JSON")
	case err != nil:
		return d, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := strict.Token(); !errors.Is(err, io.EOF) {
		return d, errors.New("more follows after the object")
	}
	return d, nil
}

// ofRecord is a record as it was exported, here or from another consumer.
func ofRecord(r dedup.Record) doneBefore {
	d := doneBefore{Scope: r.Key.Scope, ID: r.Key.ID, At: r.Finished}
	if d.At.IsZero() {
		d.At = r.Created
	}
	d.notDone = r.Ended() != dedup.Succeeded
	return d
}

func (in *importing) fromRedis(ctx context.Context, a *app) (iter.Seq2[doneBefore, error], error) {
	address := in.redis
	if address == "" {
		address = a.Getenv("ONCEWARD_REDIS")
	}
	if address == "" {
		return nil, usage("where is Redis? --redis URL or $ONCEWARD_REDIS")
	}
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, usage("--redis is no URL of a Redis server") // the error repeats it, password and all
	}
	o.ContextTimeoutEnabled = true
	logging.Disable() // what it has to say comes as an error
	before, after, _ := strings.Cut(in.pattern, "*")
	return func(yield func(doneBefore, error) bool) {
		client := redis.NewClient(o)
		defer client.Close() // it was only read
		keys := client.Scan(ctx, 0, in.pattern, 1000).Iterator()
		for keys.Next(ctx) {
			id := strings.TrimSuffix(strings.TrimPrefix(keys.Val(), before), after)
			if !yield(doneBefore{ID: id}, nil) {
				return
			}
		}
		if err := keys.Err(); err != nil {
			yield(doneBefore{}, fmt.Errorf("redis at %s: %w", o.Addr, err))
		}
	}, nil
}

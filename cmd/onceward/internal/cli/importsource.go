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
)

// doneBefore is one operation to be marked.
type doneBefore struct {
	Scope string    `json:"scope"`
	ID    string    `json:"id"`
	At    time.Time `json:"at"`
}

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

// maxImportLine is a key of the largest size, every byte of it escaped.
const maxImportLine = 16 << 10

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
			var d doneBefore
			strict := json.NewDecoder(bytes.NewReader(in.Bytes()))
			strict.DisallowUnknownFields()
			if err := strict.Decode(&d); err != nil {
				yield(d, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if _, err := strict.Token(); !errors.Is(err, io.EOF) {
				yield(d, fmt.Errorf("line %d: more follows after the object", n))
				return
			}
			if !yield(d, nil) {
				return
			}
		}
		if err := in.Err(); err != nil {
			yield(doneBefore{}, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
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

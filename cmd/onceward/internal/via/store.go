package via

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// Apply is [dedup.Store.Apply] for the operations of an operator. More than
// [adminapi.MaxOps] of them, or more than fit a request, are several commits, cut
// between keys. Who of each is set by the consumer.
//
// Errors: an [*Error], after which any operation may have taken effect where its
// Sent is true; what the store says, as [dedup.ErrClosed]; [dedup.ErrInvalidOp]
// for operations that are not an operator's.
func (c *Client) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	sent := make([]adminapi.Op, len(ops))
	for i := range ops {
		var err error
		if sent[i], err = adminapi.OfOp(&ops[i]); err != nil {
			return nil, err // before any other is applied
		}
	}
	return c.apply(ctx, sent)
}

func (c *Client) apply(ctx context.Context, ops []adminapi.Op) ([]dedup.Answer, error) {
	if len(ops) > adminapi.MaxOps {
		return c.applyInTwo(ctx, ops)
	}
	body, err := adminapi.Encode(&adminapi.ApplyRequest{Ops: ops})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", dedup.ErrInvalidOp, err)
	case len(body) > adminapi.MaxBody && len(ops) > 1:
		return c.applyInTwo(ctx, ops)
	}
	answers := make([]dedup.Answer, 0, len(ops))
	for line, err := range c.lines(ctx, request{method: http.MethodPost, path: "/apply", body: body}) {
		if err != nil {
			return nil, err
		}
		if line.Answer == nil || len(answers) == len(ops) {
			return nil, c.fail(true, "its answer does not fit the operations", ErrNotOnceward)
		}
		answers = append(answers, line.Answer.Dedup())
	}
	if len(answers) != len(ops) {
		return nil, c.fail(true, fmt.Sprintf("%v: %d answers to %d operations", ErrCut, len(answers), len(ops)), ErrCut)
	}
	return answers, nil
}

func (c *Client) applyInTwo(ctx context.Context, ops []adminapi.Op) ([]dedup.Answer, error) {
	at := between(ops)
	first, err := c.apply(ctx, ops[:at])
	if err != nil {
		return nil, err
	}
	second, err := c.apply(ctx, ops[at:])
	if err != nil {
		if of, ok := errors.AsType[*Error](err); ok {
			of.Sent = true // the first ones have
		}
		return nil, err
	}
	return append(first, second...), nil
}

// between is a place to cut a slice in two, near its middle, that does not
// separate operations of one key where it can.
func between(ops []adminapi.Op) int {
	middle := len(ops) / 2
	for d := range middle {
		for _, at := range [...]int{middle - d, middle + d} {
			if at > 0 && at < len(ops) && ops[at-1].Key != ops[at].Key {
				return at
			}
		}
	}
	return middle
}

// Lookup is [dedup.Store.Lookup], in as many requests as it takes.
//
// Errors: an [*Error]; what the store says.
func (c *Client) Lookup(ctx context.Context, keys []dedup.Key) ([]dedup.Record, error) {
	records := make([]dedup.Record, 0, len(keys))
	for some := range slices.Chunk(keys, adminapi.MaxKeys) {
		q := adminapi.RecordsRequest{Keys: make([]adminapi.Key, len(some))}
		for i, k := range some {
			q.Keys[i] = adminapi.OfKey(k)
		}
		n := 0
		for line, err := range c.post(ctx, "/records", q) {
			if err != nil {
				return nil, err
			}
			if line.Record == nil || n == len(some) || line.Record.Key.Dedup() != some[n] {
				return nil, c.fail(true, "its answer does not fit the keys", ErrNotOnceward)
			}
			records = append(records, line.Record.Dedup())
			n++
		}
		if n != len(some) {
			return nil, c.fail(true, fmt.Sprintf("%v: %d records for %d keys", ErrCut, n, len(some)), ErrCut)
		}
	}
	return records, nil
}

// Letters is [dedup.Store.Letters], in as many requests as it takes.
//
// Errors: an [*Error]; what the store says.
func (c *Client) Letters(ctx context.Context, ids []string) ([]dedup.Letter, error) {
	letters := make([]dedup.Letter, 0, len(ids))
	for some := range slices.Chunk(ids, adminapi.MaxKeys) {
		q := adminapi.LettersRequest{IDs: make([]adminapi.Text, len(some))}
		for i, id := range some {
			q.IDs[i] = adminapi.Text(id)
		}
		n := 0
		for line, err := range c.post(ctx, "/letters", q) {
			if err != nil {
				return nil, err
			}
			if line.Letter == nil || n == len(some) || line.Letter.ID != "" && string(line.Letter.ID) != some[n] {
				return nil, c.fail(true, "its answer does not fit the letters", ErrNotOnceward)
			}
			letters = append(letters, line.Letter.Dedup())
			n++
		}
		if n != len(some) {
			return nil, c.fail(true, fmt.Sprintf("%v: %d letters for %d ids", ErrCut, n, len(some)), ErrCut)
		}
	}
	return letters, nil
}

// post asks with a body for what changes nothing.
func (c *Client) post(ctx context.Context, path string, body any) iter.Seq2[*adminapi.Line, error] {
	b, err := adminapi.Encode(body)
	if err != nil {
		return func(yield func(*adminapi.Line, error) bool) { yield(nil, err) }
	}
	return c.lines(ctx, request{method: http.MethodPost, path: path, body: b, again: true})
}

// Records goes through the records of a scope, or of all where it is empty, in
// one of the states, or in any where there is none; see [dedup.Store.Scan]. The
// consumer reads all of them, and sends those.
//
// Errors, yielded once, last: an [*Error]; what the store says.
func (c *Client) Records(ctx context.Context, scope string, states ...dedup.State) iter.Seq2[dedup.Record, error] {
	q := url.Values{}
	if scope != "" {
		q.Set("scope", scope)
	}
	for _, s := range states {
		q.Add("state", s.String())
	}
	return func(yield func(dedup.Record, error) bool) {
		for line, err := range c.lines(ctx, request{method: http.MethodGet, path: "/records", query: q, again: true}) {
			switch {
			case err != nil:
				yield(dedup.Record{}, err)
				return
			case line.Record == nil:
				yield(dedup.Record{}, c.fail(true, "its answer is no record", ErrNotOnceward))
				return
			case !yield(line.Record.Dedup(), nil):
				return
			}
		}
	}
}

// Scan is [dedup.Store.Scan] of the consumer; another one has no records here.
func (c *Client) Scan(ctx context.Context, consumer string) iter.Seq2[dedup.Record, error] {
	if err := c.others(consumer); err != nil {
		return func(yield func(dedup.Record, error) bool) { yield(dedup.Record{}, err) }
	}
	return c.Records(ctx, "")
}

// ScanLetters is [dedup.Store.ScanLetters] of the consumer.
func (c *Client) ScanLetters(ctx context.Context, consumer string) iter.Seq2[dedup.Letter, error] {
	if err := c.others(consumer); err != nil {
		return func(yield func(dedup.Letter, error) bool) { yield(dedup.Letter{}, err) }
	}
	return func(yield func(dedup.Letter, error) bool) {
		for line, err := range c.lines(ctx, request{method: http.MethodGet, path: "/letters", again: true}) {
			switch {
			case err != nil:
				yield(dedup.Letter{}, err)
				return
			case line.Letter == nil:
				yield(dedup.Letter{}, c.fail(true, "its answer is no letter", ErrNotOnceward))
				return
			case !yield(line.Letter.Dedup(), nil):
				return
			}
		}
	}
}

func (c *Client) others(consumer string) error {
	if name := c.Name(); consumer != "" && consumer != name {
		return c.fail(false, fmt.Sprintf("this is consumer %q, not %q", clean(name), clean(consumer)), ErrForbidden)
	}
	return nil
}

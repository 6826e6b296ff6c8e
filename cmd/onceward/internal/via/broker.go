package via

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/adminapi"
)

// Browse is [brokers.Browser.Browse] of one of the consumer's own topics: those
// that it reads, and its dead-letter and retry destinations.
//
// Errors, yielded once, last: an [*Error]; what the broker says, as
// [brokers.ErrNoDestination].
func (c *Client) Browse(ctx context.Context, topic string, from brokers.From) iter.Seq2[*brokers.Delivery, error] {
	return func(yield func(*brokers.Delivery, error) bool) {
		if from.Offsets != nil && len(from.Offsets) == 0 {
			return
		}
		q := url.Values{"topic": {topic}}
		if !from.Since.IsZero() {
			q.Set("since", from.Since.UTC().Format(time.RFC3339Nano))
		}
		for _, p := range slices.Sorted(maps.Keys(from.Offsets)) {
			q.Add("offset", fmt.Sprintf("%d:%d", p, from.Offsets[p]))
		}
		var lane *brokers.Lane
		for line, err := range c.lines(ctx, request{method: http.MethodGet, path: "/browse", query: q, again: true}) {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case line.Lane != nil:
				lane = line.Lane.Broker()
			case line.Message == nil || lane == nil:
				yield(nil, c.fail(true, "its answer is no message", ErrNotOnceward))
				return
			case !yield(line.Message.Broker(lane), nil):
				return
			}
		}
	}
}

// Inspect is [brokers.Browser.Inspect] of the consumer's own topics.
//
// Errors: an [*Error]; what the broker says.
func (c *Client) Inspect(ctx context.Context, topics []string) ([]brokers.TopicInfo, error) {
	var infos []brokers.TopicInfo
	for some := range slices.Chunk(topics, adminapi.MaxKeys) {
		q := adminapi.InspectRequest{Topics: make([]adminapi.Text, len(some))}
		for i, topic := range some {
			q.Topics[i] = adminapi.Text(topic)
		}
		body, err := adminapi.Encode(&q)
		if err != nil {
			return nil, err
		}
		var answer adminapi.InspectResponse
		if err := c.call(ctx, request{method: http.MethodPost, path: "/inspect", body: body, again: true}, &answer); err != nil {
			return nil, err
		}
		if len(answer.Topics) != len(some) {
			return nil, c.fail(true, "its answer does not fit the topics", ErrNotOnceward)
		}
		for i := range answer.Topics {
			infos = append(infos, answer.Topics[i].Broker())
		}
	}
	return infos, nil
}

// Publish is [brokers.Broker.Publish] to one of the consumer's retry
// destinations or the topics that it reads, in as many requests as it takes.
//
// Errors of an item: as the broker's; an [*Error], which is
// [brokers.ErrUnauthorized] where the consumer does not do this for the caller,
// and [brokers.ErrUnknownOutcome] where its answer did not come.
func (c *Client) Publish(ctx context.Context, messages []brokers.Outgoing) []error {
	switch {
	case len(messages) == 0:
		return nil
	case len(messages) > adminapi.MaxMessages:
		return c.publishInTwo(ctx, messages)
	}
	q := adminapi.PublishRequest{Messages: make([]adminapi.Outgoing, len(messages))}
	for i := range messages {
		q.Messages[i] = adminapi.OfOutgoing(&messages[i])
	}
	body, err := adminapi.Encode(&q)
	switch {
	case err != nil:
		return each(messages, err)
	case len(messages) == 1 && len(body) > adminapi.MaxBody:
		return each(messages, fmt.Errorf("%w: it makes a request of %d bytes, at most %d", brokers.ErrTooLarge, len(body), adminapi.MaxBody))
	case len(body) > adminapi.MaxBody:
		return c.publishInTwo(ctx, messages)
	}
	var answer adminapi.PublishResponse
	err = c.call(ctx, request{method: http.MethodPost, path: "/publish", body: body}, &answer)
	if err == nil && len(answer.Errors) != len(messages) {
		err = c.fail(true, "its answer does not fit the messages", ErrNotOnceward)
	}
	if err != nil {
		var of *Error
		if errors.As(err, &of) && of.Sent {
			of.is = append(of.is, brokers.ErrUnknownOutcome)
		}
		return each(messages, err)
	}
	errs := make([]error, len(messages))
	for i, fault := range answer.Errors {
		errs[i] = fault.Err()
	}
	return errs
}

func (c *Client) publishInTwo(ctx context.Context, messages []brokers.Outgoing) []error {
	middle := len(messages) / 2
	return append(c.Publish(ctx, messages[:middle]), c.Publish(ctx, messages[middle:])...)
}

func each(messages []brokers.Outgoing, err error) []error {
	return slices.Repeat([]error{err}, len(messages))
}

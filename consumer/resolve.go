package consumer

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// keyError says that a delivery has no key that could be claimed. It is for
// good: a letter, and no record.
type keyError struct {
	reason deadletter.Reason // decode or key
	err    error
	stack  []byte // of a panic
}

func (e *keyError) Error() string { return e.err.Error() }
func (e *keyError) Unwrap() error { return e.err }

// fill makes d what a handler sees of from, without dl-* headers. It allocates
// only where there are such. Topic, Partition, Offset and Time of a copy that
// waited are those of the copy, until the record tells better.
func (d *Delivery) fill(from *brokers.Delivery) {
	*d = Delivery{
		Topic:     from.Lane.Topic,
		Partition: from.Lane.Partition,
		Offset:    from.Offset,
		Subject:   from.Subject,
		BrokerKey: from.Key,
		Value:     from.Value,
		Headers:   withoutOwn(from.Headers),
		Time:      from.Time,
	}
}

func withoutOwn(headers []brokers.Header) []brokers.Header {
	for i := range headers {
		if !deadletter.IsOwnHeader(headers[i].Key) {
			continue
		}
		kept := append(make([]brokers.Header, 0, len(headers)-1), headers[:i]...)
		for _, h := range headers[i+1:] {
			if !deadletter.IsOwnHeader(h.Key) {
				kept = append(kept, h)
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	}
	return headers
}

// selectRoute returns the first route that takes the delivery.
func selectRoute(routes []Route, d *Delivery) (r *Route, err *keyError) {
	at := 0
	defer func() {
		if v := recover(); v != nil {
			r, err = nil, panicked(deadletter.ReasonKey, "match of route "+routes[at].Scope, v)
		}
	}()
	for ; at < len(routes); at++ {
		if routes[at].Match.Is == nil || routes[at].Match.Is(d) {
			return &routes[at], nil
		}
	}
	return nil, &keyError{reason: deadletter.ReasonKey, err: fmt.Errorf("no route takes the message: %s; its headers: %s", rulesOf(routes), headerNames(d.Headers))}
}

func rulesOf(routes []Route) string {
	rules := make([]string, len(routes))
	for i := range routes {
		rules[i] = routes[i].Scope + " takes " + quoteBounded(routes[i].Match.Rule)
	}
	return boundText(strings.Join(rules, ", "), 512)
}

// resolve decodes the delivery and finds what it is claimed by: its key, its
// ordering key and its fingerprint. It sets d.Decoded and d.Key.
func (r *Route) resolve(d *Delivery) (key dedup.Key, order string, fp dedup.Fingerprint, fault *keyError) {
	step, reason := "decode", deadletter.ReasonDecode
	defer func() {
		if v := recover(); v != nil {
			fault = panicked(reason, step, v)
		}
	}()
	if len(r.fields) > 1 {
		d.locate(r.fields)
		defer d.unlocate()
	}
	if r.Decode != nil {
		decoded, err := r.Decode(d)
		if err != nil {
			return key, "", fp, unreadable(reason, err)
		}
		d.Decoded = decoded
	}
	step, reason = "id", deadletter.ReasonKey
	id, err := r.ID.text(d)
	if err != nil {
		return key, "", fp, unreadable(reason, fmt.Errorf("id: %w", err))
	}
	// Known from here on, also to whoever is told of an order or a fingerprint
	// that could not be found.
	key = dedup.Key{Consumer: r.consumer, Scope: r.Scope, ID: id}
	d.Key = key
	step = "order"
	switch {
	case r.Order.From != nil:
		if order, err = r.Order.text(d); err != nil {
			return key, "", fp, unreadable(reason, fmt.Errorf("order: %w", err))
		}
	case len(d.BrokerKey) > 0 && string(d.BrokerKey) != id:
		order = string(d.BrokerKey)
	default:
		order = id
	}
	step = "fingerprint"
	if fp, err = r.fingerprint(d); err != nil {
		return key, "", fp, unreadable(reason, fmt.Errorf("fingerprint: %w", err))
	}
	return key, order, fp, nil
}

// unreadable gives an error of a step its reason: JSON that cannot be read is
// a decode letter wherever it is noticed, a name that occurs twice a key letter.
func unreadable(reason deadletter.Reason, err error) *keyError {
	if _, ok := errors.AsType[*malformedError](err); ok {
		reason = deadletter.ReasonDecode
	}
	if _, ok := errors.AsType[*twiceError](err); ok {
		reason = deadletter.ReasonKey
	}
	return &keyError{reason: reason, err: err}
}

func panicked(reason deadletter.Reason, step string, value any) *keyError {
	p := &PanicError{Value: value, Stack: debug.Stack()}
	return &keyError{reason: reason, err: fmt.Errorf("%s: %w", step, p), stack: p.Stack}
}

package brokers

import (
	"context"
	"fmt"
	"slices"
)

// Publish is b.Publish with one error for each message: of what a broker that
// miscounts has stored nobody knows, so that each is [ErrUnknownOutcome] then.
func Publish(ctx context.Context, b interface {
	Publish(ctx context.Context, messages []Outgoing) []error
}, messages []Outgoing,
) []error {
	errs := b.Publish(ctx, messages)
	if len(errs) != len(messages) {
		err := fmt.Errorf("%w: the broker gave %d results for %d messages", ErrUnknownOutcome, len(errs), len(messages))
		return slices.Repeat([]error{err}, len(messages))
	}
	return errs
}

package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

const (
	// keepEvery is how often prefix and mark are brought up to date. What a
	// prefix lags behind only delays expiry; what a mark lags behind is how far
	// a restored copy can be unnoticed.
	keepEvery = time.Second
	// sweepEvery keeps what one sweep finds small.
	sweepEvery = 5 * time.Second
	// nearlyFull is the share of a store's bound from which its end is in sight.
	nearlyFull = 0.9
)

// keep does what must be done beside the traffic: the acknowledged prefix and
// the mark are written, expired records are swept, pauses are heeded.
func (c *Consumer) keep(ctx context.Context, fail func(error)) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	var swept time.Time
	var marked uint64
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		_ = c.lookAtPauses(ctx) // it has told of it, and asks again
		if !c.accepted.Load() {
			// No lane yet, or a refused copy, which must not catch up, write by write.
			if err := c.standby(ctx); err != nil {
				fail(err)
				return
			}
			continue
		}
		c.keepPrefix(ctx)
		info := c.cfg.Store.Info()
		c.degraded("room in the store", roomLeft(info))
		if c.marked() && info.Sequence != marked {
			err := c.pipeline.source.Mark(ctx, markOf(info))
			var other *brokers.MarkError
			switch {
			case err == nil:
				marked = info.Sequence
				c.degraded("mark", nil)
			case errors.As(err, &other):
				fail(c.markError(err))
				return
			case ctx.Err() == nil:
				c.degraded("mark", err)
			}
		}
		if time.Since(swept) >= sweepEvery {
			swept = time.Now()
			if err := c.sweep(ctx); err != nil {
				fail(err)
				return
			}
		}
	}
}

// standby compares the store to the marks of others' lanes while this process
// has none: it would be refused when they come, which may be in months, in the
// middle of somebody's night.
func (c *Consumer) standby(ctx context.Context) error {
	reader, ok := c.pipeline.source.(brokers.MarkReader)
	if !ok || !c.marked() {
		return nil
	}
	marks, err := reader.Marks(ctx)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, brokers.ErrClosed) && !errors.As(err, new(*brokers.StartError)) {
			c.degraded("mark", err)
		}
		return nil // a source that has ended says so to who receives
	}
	c.degraded("mark", nil)
	_, err = c.compare(marks)
	return err
}

// roomLeft is why somebody should make room in a store, nil while there is
// enough.
func roomLeft(info dedup.Info) error {
	if info.Full < nearlyFull {
		return nil
	}
	return fmt.Errorf("%s is %.0f %% full: at 100 %% it takes no new keys", info.Kind, 100*info.Full)
}

// firstMark writes the mark before anything runs, again until it is kept: a
// file that is lost in the first second was used, too. It comes after the marks
// found with the lanes were compared, so that a start which was refused leaves
// no mark with which the next one would be accepted.
func (c *Consumer) firstMark(ctx context.Context) error {
	for tries := 1; c.marked(); tries++ {
		err := c.pipeline.source.Mark(ctx, markOf(c.cfg.Store.Info()))
		var other *brokers.MarkError
		var start *brokers.StartError
		switch {
		case err == nil:
			c.degraded("mark", nil)
			return nil
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &other):
			return c.markError(err)
		case errors.As(err, &start), errors.Is(err, brokers.ErrClosed):
			return err
		}
		c.degraded("mark", err)
		if again(ctx, tries) != nil {
			return nil
		}
	}
	return nil
}

// lastMark writes the mark once more, so that the file of a consumer that was
// stopped in order is known to its last write.
func (c *Consumer) lastMark(ctx context.Context) {
	if !c.accepted.Load() || !c.marked() {
		return
	}
	if err := c.pipeline.source.Mark(ctx, markOf(c.cfg.Store.Info())); err != nil {
		c.log.Warn("store's mark could not be written at the end", "error", err)
	}
}

func (c *Consumer) keepPrefix(ctx context.Context) {
	floors, err := c.pipeline.source.Floors(ctx)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, brokers.ErrClosed) {
			c.degraded("acknowledged prefix", err)
		}
		return
	}
	c.degraded("acknowledged prefix", nil)
	positions := make([]dedup.Position, 0, len(floors))
	lag := int64(0)
	for _, f := range floors {
		if !f.Lane.Retry {
			lag += max(f.Lag, 0)
		}
		// A copy that cannot be read has a record, too, which speaks of its place.
		positions = append(positions, dedup.Position{Source: f.Lane.Source, Partition: f.Lane.Partition, Offset: f.Next})
	}
	c.health.lags(lag)
	c.pipeline.post(func() { c.pipeline.prefix(positions) })
}

// prefix puts positions that have moved into the next commit.
func (p *pipeline) prefix(positions []dedup.Position) {
	for _, at := range positions {
		lane := dedup.Position{Source: at.Source, Partition: at.Partition}
		if p.prefixed[lane] < at.Offset {
			p.prefixed[lane] = at.Offset
			p.prefixes = append(p.prefixes, at)
		}
	}
}

// sweep ends what is over. It asks the store also when nothing arrives, so it
// is the one to find out that the store works no more: whoever is live and
// waits for it waits for ever.
func (c *Consumer) sweep(ctx context.Context) error {
	err := dedup.SweepDue(ctx, c.cfg.Store)
	if ctx.Err() != nil {
		return nil
	}
	c.degraded("expiry", err)
	if dedup.IsUnusable(err) {
		return &brokers.StartError{
			What:  fmt.Sprintf("consumer %q with %s", c.cfg.Name, c.cfg.Store.Info().Kind),
			Wrong: "the store does nothing more until it is opened again", Err: err,
		}
	}
	return nil
}

package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
)

// defaultAckWait is the server's own default: longer than a pause of the
// process that nobody notices, short enough to take over from a dead one.
const defaultAckWait = 30 * time.Second

// processes is for how many processes of one consumer a durable is made that
// Create makes: its bound on unacknowledged messages is theirs together.
const processes = 10

// unlimited is a bound of JetStream that bounds nothing.
const unlimited = -1

// durableWanted is a durable that must exist, and how.
type durableWanted struct {
	name    string
	filter  string        // that it must have; empty for a source, whose filter is the user's
	ackWait time.Duration // 0: what it has
	pending int           // least MaxAckPending; unlimited on a retry stream
	start   brokers.Start
}

// durable finds the durable, makes it where Create says so, and compares it.
func (b *Broker) durable(ctx context.Context, s jetstream.Stream, w durableWanted) (jetstream.Consumer, error) {
	stream := s.CachedInfo().Config.Name
	what := fmt.Sprintf("open consumer %q of stream %q", w.name, stream)
	began := time.Now()
	c, err := s.Consumer(ctx, w.name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		if !b.config.Create {
			config := w.config()
			return nil, &brokers.StartError{What: what, Wrong: "it does not exist", Mend: "set Create, or: " + addDurable(stream, config, w.start), Err: err}
		}
		config, fault := w.from(ctx, s)
		if fault != nil {
			return nil, b.explain(what, began, fault)
		}
		what = fmt.Sprintf("make consumer %q of stream %q", w.name, stream)
		c, err = s.CreateConsumer(ctx, config)
		if errors.Is(err, jetstream.ErrConsumerExists) { // another process was faster
			c, err = s.Consumer(ctx, w.name)
		}
	}
	switch {
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		return nil, &brokers.StartError{
			What: what, Wrong: "it is a push consumer", Mend: recreate(stream, w.name), Err: err,
		}
	case err != nil:
		return nil, b.explain(what, began, err)
	}
	if wrong, mend := w.compare(stream, &c.CachedInfo().Config); wrong != "" {
		return nil, &brokers.StartError{What: what, Wrong: wrong, Mend: mend}
	}
	return c, nil
}

// config is how the durable is made, without where it starts.
func (w *durableWanted) config() jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		Durable: w.name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: w.ackWait,
		// Attempts are counted in the record. Past a bound here the message
		// would be left behind with one advisory.
		MaxDeliver: unlimited, MaxAckPending: unlimited, FilterSubject: w.filter,
	}
	if c.AckWait == 0 {
		c.AckWait = defaultAckWait
	}
	if w.pending != unlimited {
		c.MaxAckPending = processes * w.pending
	}
	return c
}

// from adds where it starts.
func (w *durableWanted) from(ctx context.Context, s jetstream.Stream) (jetstream.ConsumerConfig, error) {
	c := w.config()
	switch w.start.Kind {
	case brokers.StartLatest:
		c.DeliverPolicy = jetstream.DeliverNewPolicy
	case brokers.StartTime:
		at := w.start.Time
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &at
	case brokers.StartGroup:
		other, err := s.Consumer(ctx, w.start.Group)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			err = &brokers.StartError{
				What:  fmt.Sprintf("start where consumer %q of stream %q stands", w.start.Group, s.CachedInfo().Config.Name),
				Wrong: "it does not exist", Err: err,
			}
		}
		if err != nil {
			return c, err
		}
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, other.CachedInfo().AckFloor.Stream+1
	default:
		c.DeliverPolicy = jetstream.DeliverAllPolicy
	}
	return c, nil
}

// compare says what is wrong with an existing durable, and how to mend it.
// Where it starts is not compared: the position that the server has wins.
func (w *durableWanted) compare(stream string, c *jetstream.ConsumerConfig) (wrong, mend string) {
	edit := func(flags string) string { return fmt.Sprintf("nats consumer edit %s %s %s", stream, w.name, flags) }
	switch {
	case c.AckPolicy != jetstream.AckExplicitPolicy:
		return fmt.Sprintf("its ack policy is %s, not explicit", c.AckPolicy), recreate(stream, w.name)
	case c.MaxDeliver > 0:
		return fmt.Sprintf("it gives a message up after %d deliveries", c.MaxDeliver), edit("--max-deliver=-1")
	case len(c.BackOff) > 0:
		return "it has a backoff, which takes the place of AckWait", edit("--backoff=none")
	case w.ackWait != 0 && c.AckWait != w.ackWait:
		return fmt.Sprintf("its AckWait is %v, not %v", c.AckWait, w.ackWait), edit(fmt.Sprintf("--wait=%v", w.ackWait))
	case c.AckWait < 100*time.Millisecond:
		return fmt.Sprintf("its AckWait is %v, at least 100ms", c.AckWait), edit("--wait=30s")
	case w.pending == unlimited && c.MaxAckPending > 0:
		return fmt.Sprintf("it stands still when %d messages wait", c.MaxAckPending), edit("--max-pending=-1")
	case c.MaxAckPending > 0 && c.MaxAckPending < w.pending:
		return fmt.Sprintf("its MaxAckPending is %d, but this process may hold %d", c.MaxAckPending, w.pending),
			edit(fmt.Sprintf("--max-pending=%d", processes*w.pending))
	case c.HeadersOnly:
		return "it delivers headers only", edit("--no-headers-only")
	case c.InactiveThreshold > 0:
		return fmt.Sprintf("it is deleted, with its position, after %v without a reader", c.InactiveThreshold), edit("--inactive-threshold=0s")
	case c.PriorityPolicy != jetstream.PriorityPolicyNone:
		return "it has priority groups", recreate(stream, w.name)
	case w.filter != "" && c.FilterSubject != w.filter && !(len(c.FilterSubjects) == 1 && c.FilterSubjects[0] == w.filter):
		return fmt.Sprintf("it does not read %q alone", w.filter), edit("--filter=" + w.filter)
	}
	return "", ""
}

func recreate(stream, name string) string {
	return fmt.Sprintf("that cannot be changed; use another name, or note its ack floor and: nats consumer rm %s %s", stream, name)
}

// addDurable is the command that makes a durable.
func addDurable(stream string, c jetstream.ConsumerConfig, start brokers.Start) string {
	deliver := "all"
	switch start.Kind {
	case brokers.StartLatest:
		deliver = "new"
	case brokers.StartTime:
		deliver = start.Time.UTC().Format(time.RFC3339)
	case brokers.StartGroup:
		deliver = "SEQUENCE # the ack floor of " + start.Group + " plus one"
	}
	flags := []string{
		"--pull", "--ack=explicit", "--max-deliver=-1", fmt.Sprintf("--wait=%v", c.AckWait),
		fmt.Sprintf("--max-pending=%d", c.MaxAckPending), "--replay=instant", "--defaults",
	}
	if c.FilterSubject != "" {
		flags = append(flags, "--filter="+c.FilterSubject)
	}
	return fmt.Sprintf("nats consumer add %s %s %s --deliver=%s", stream, c.Durable, strings.Join(flags, " "), deliver)
}

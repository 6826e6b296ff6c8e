package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/fetch"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/records"
)

const (
	// healing is for how long a browse waits for a cluster that is away, from the
	// first fault on, until a message comes again.
	healing = 30 * time.Second
	// firstAsk is what is asked for first of each partition, in bytes, so that
	// one page of a long topic comes at once; then up to maxLaneAsk.
	firstAsk = 128 << 10
	// mostShown bounds the messages of one answer, which may be compressed.
	mostShown = 4 << 20
)

// Browse implements [brokers.Browser]. Partition after partition it reads with
// read_committed up to the last stable offset of the beginning, a single answer
// ahead of the caller.
func (b *broker) Browse(ctx context.Context, name string, from brokers.From) iter.Seq2[*brokers.Delivery, error] {
	return func(yield func(*brokers.Delivery, error) bool) {
		l := &look{b: b, name: name, from: from, decoder: records.NewDecoder(b.cfg.MaxBatchBytes)}
		l.decoder.MaxBytes = mostShown
		if err := l.run(ctx, yield); err != nil {
			yield(nil, fmt.Errorf("browse topic %.80q: %w", name, err))
		}
	}
}

// look is one browse.
type look struct {
	b       *broker
	name    string
	from    brokers.From
	decoder *records.Decoder
	buffer  []byte // of the last answer, used again

	topic  cluster.Topic // as last heard of
	ranges []*stretch    // of the partitions, in order

	misses  int       // how often the topic was not found, in a row
	empty   int       // answers without anything, in a row
	trouble time.Time // when what has not healed began; zero without
}

// stretch is what is to be read of one partition.
type stretch struct {
	lane      *brokers.Lane
	next, end int64
	ask       int32
}

// run returns nil also when the caller has had enough.
func (l *look) run(ctx context.Context, yield func(*brokers.Delivery, error) bool) error {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := l.survey(ctx)
		for err == nil && len(l.ranges) > 0 {
			var more bool
			if more, err = l.read(ctx, l.ranges[0], yield); err == nil && !more {
				return nil
			}
			if err == nil {
				pause = 20 * time.Millisecond
			}
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case final(err):
			return err
		}
		if fault := l.b.terminal("browse", err); fault != nil {
			return fault
		}
		if l.trouble.IsZero() {
			l.trouble = time.Now()
		}
		if time.Since(l.trouble) > healing {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// final says that a retry does not mend it.
func final(err error) bool {
	return errors.Is(err, brokers.ErrNoDestination) || errors.Is(err, brokers.ErrUnauthorized) || errors.Is(err, brokers.ErrClosed) ||
		errors.As(err, new(*records.CorruptError))
}

// survey finds the leaders and, the first time, what is to be read.
func (l *look) survey(ctx context.Context) error {
	t, err := l.describe(ctx)
	if err != nil {
		return err
	}
	if l.ranges != nil {
		if madeAgain(l.topic.ID, t.ID) {
			return fmt.Errorf("%w any more: it was made again", brokers.ErrNoDestination)
		}
		l.topic = t
		return nil
	}
	topics := map[string]cluster.Topic{l.name: t}
	var ps []coop.Partition
	for _, index := range slices.Sorted(maps.Keys(t.Partitions)) {
		if _, named := l.from.Offsets[index]; named || l.from.Offsets == nil {
			ps = append(ps, coop.Partition{Topic: l.name, Index: index})
		}
	}
	ends, err := offsetsFor(ctx, l.b.cluster, topics, ps, latest, committed)
	if err != nil {
		return denied(err)
	}
	starts, err := listOffsets(ctx, l.b.cluster, topics, ps, earliest)
	if err != nil {
		return denied(err)
	}
	var since map[coop.Partition]int64
	if !l.from.Since.IsZero() {
		if since, err = listOffsets(ctx, l.b.cluster, topics, ps, max(0, l.from.Since.UnixMilli())); err != nil {
			return denied(err)
		}
	}
	l.topic, l.ranges = t, []*stretch{}
	for _, p := range ps {
		r := &stretch{next: max(starts[p], l.from.Offsets[p.Index]), end: ends[p], ask: firstAsk}
		if at, asked := since[p]; asked {
			if at < 0 {
				at = r.end // nothing is as new as that time
			}
			r.next = max(r.next, at)
		}
		if r.next < r.end {
			r.lane = &brokers.Lane{Topic: l.name, Partition: p.Index, Source: sourceID(l.name, t.ID), Backlog: r.end - r.next}
			l.ranges = append(l.ranges, r)
		}
	}
	return nil
}

// describe asks for the topic. One that was made a moment ago is not known
// everywhere, and is asked for some times.
func (l *look) describe(ctx context.Context) (cluster.Topic, error) {
	if !topicName.MatchString(l.name) {
		return cluster.Topic{}, fmt.Errorf("%w: it is no name of a topic", brokers.ErrNoDestination)
	}
	if l.b.cluster.Closed() {
		return cluster.Topic{}, brokers.ErrClosed
	}
	view, err := l.b.cluster.Metadata(ctx, []string{l.name})
	if err != nil {
		return cluster.Topic{}, err
	}
	t := view.Topics[l.name]
	switch {
	case t.Err == kafka.UnknownTopicOrPartition, t.Err == kafka.InvalidTopic:
		if l.misses++; l.misses >= tries {
			return t, brokers.ErrNoDestination
		}
		return t, t.Err
	case t.Err != 0:
		return t, denied(t.Err)
	}
	l.misses = 0
	return t, nil
}

// denied says so where rights are missing.
func denied(err error) error {
	if errors.Is(err, kafka.TopicAuthorizationFailed) {
		return fmt.Errorf("%w: %w", brokers.ErrUnauthorized, err)
	}
	return err
}

// read asks for what comes next of a partition, and shows it. It reports false
// when the caller has had enough, and takes the stretch away at its end.
func (l *look) read(ctx context.Context, r *stretch, yield func(*brokers.Delivery, error) bool) (more bool, err error) {
	answer, err := l.fetch(ctx, r)
	if errors.Is(err, kafka.OffsetOutOfRange) {
		err = l.shift(ctx, r)
	}
	if err != nil {
		return true, fmt.Errorf("partition %d: %w", r.lane.Partition, err)
	}
	set, fault := l.decoder.Decode(answer.Records, r.next, answer.Aborted)
	if set.Next == r.next && r.next < r.end {
		if fault == nil {
			fault = l.nothing(r, answer)
		}
	} else {
		l.trouble, l.empty = time.Time{}, 0
	}
	r.next, r.ask = set.Next, min(2*r.ask, maxLaneAsk)
	for _, slab := range set.Slabs {
		for i := range slab {
			d := &slab[i]
			if d.Offset >= r.end {
				break
			}
			if err := ctx.Err(); err != nil {
				return true, err
			}
			d.Lane = r.lane
			if !yield(d, nil) {
				return false, nil
			}
		}
	}
	if fault != nil {
		return true, fmt.Errorf("partition %d: %w", r.lane.Partition, fault)
	}
	if r.next >= r.end {
		l.ranges = l.ranges[1:]
	}
	return true, nil
}

// nothing acts on an answer that does not lead on. The leader may be new and
// behind, but when it says twice that it has the end and nothing before it, then
// compaction has taken what was there.
func (l *look) nothing(r *stretch, answer fetch.Result) error {
	l.empty++
	if len(answer.Records) == 0 && answer.LastStable >= r.end && l.empty > 1 {
		r.end, l.empty = r.next, 0
		return nil
	}
	return fmt.Errorf("the broker gives nothing at offset %d, and the last stable one is %d", r.next, answer.LastStable)
}

// fetch asks the leader for one partition.
func (l *look) fetch(ctx context.Context, r *stretch) (fetch.Result, error) {
	p, ok := l.topic.Partitions[r.lane.Partition]
	if !ok || p.Leader < 0 {
		return fetch.Result{}, kafka.LeaderNotAvailable
	}
	req := &fetch.Request{
		Wants:   []fetch.Want{{Topic: l.name, ID: l.topic.ID, Partition: r.lane.Partition, Offset: r.next, MaxBytes: r.ask}},
		MaxWait: longWait, MaxBytes: r.ask, Limit: l.b.cfg.MaxBatchBytes + maxAsk, ClientID: l.b.cluster.ClientID(), Buffer: l.buffer,
	}
	l.buffer = nil // it is the exchange's until it has ended well
	res, err := l.b.cluster.Raw(ctx, p.Leader, req.MaxWait+silence, req)
	if err != nil {
		return fetch.Result{}, err
	}
	answer := res.(*fetch.Answer)
	l.buffer = answer.Buffer
	switch {
	case answer.Err != 0:
		return fetch.Result{}, denied(answer.Err)
	case len(answer.Results) == 0:
		return fetch.Result{}, errors.New("the broker answers nothing, as one does that throttles")
	case answer.Results[0].Err != 0:
		return fetch.Result{}, denied(answer.Results[0].Err)
	}
	return answer.Results[0], nil
}

// shift goes on behind what was deleted since the browse began, at its log's
// beginning or at its end.
func (l *look) shift(ctx context.Context, r *stretch) error {
	topics, p := map[string]cluster.Topic{l.name: l.topic}, coop.Partition{Topic: l.name, Index: r.lane.Partition}
	starts, err := listOffsets(ctx, l.b.cluster, topics, []coop.Partition{p}, earliest)
	if err != nil {
		return err
	}
	ends, err := listOffsets(ctx, l.b.cluster, topics, []coop.Partition{p}, latest)
	if err != nil {
		return err
	}
	switch {
	case starts[p] > r.next:
		r.next = min(starts[p], r.end)
	case ends[p] < r.next:
		r.end = r.next
	default:
		return kafka.OffsetOutOfRange // a leader that was behind
	}
	return nil
}

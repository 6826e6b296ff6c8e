package brokertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
)

// Harness is what the suite needs of an adapter and its broker. All functions
// fail the test themselves when something goes wrong.
type Harness struct {
	// Connect opens a connection of its own, as another process would have,
	// that makes missing destinations. The suite closes it.
	Connect func(t *testing.T) brokers.Broker
	// Crash ends a connection and its sources as if the process had been
	// killed: nothing more is sent.
	Crash func(t *testing.T, b brokers.Broker)
	// NewTopic makes an empty topic with at least that many partitions, where
	// the broker has partitions.
	NewTopic func(t *testing.T, partitions int) string
	// DeleteTopic deletes one.
	DeleteTopic func(t *testing.T, topic string)
	// Produce stores messages in a topic, in order, as a producer does that
	// knows nothing of onceward. Topic and ID of the messages are ignored, and
	// a Partition is kept where the broker has partitions.
	Produce func(t *testing.T, topic string, messages ...brokers.Outgoing)
	// Stored is all that a destination (a name that Publish takes) holds, in
	// the order of each partition, with nothing of the adapter's left.
	Stored func(t *testing.T, destination string) []brokers.Outgoing
	// DropBelow deletes what partition 0 of a topic holds below an offset, as
	// retention does.
	DropBelow func(t *testing.T, topic string, offset int64)
	// LoseConfirmation makes the next publish over this connection be stored
	// and its confirmation lost, until the function it returns is called.
	LoseConfirmation func(t *testing.T, b brokers.Broker, destination string) (heal func())

	// TooLarge is a size of value that the broker refuses.
	TooLarge int
	// Takeover is after how long at most a crashed process's deliveries are
	// handed to the next.
	Takeover time.Duration
	// Lacks says what the broker cannot do, and why.
	Lacks map[Capability]string
}

// Capability is something that not every broker can do.
type Capability string

// The capabilities.
const (
	// Rebalance: partitions move between members, and are drained before.
	Rebalance Capability = "rebalance"
	// BinaryHeaders: a producer's headers keep any name, bytes and order.
	BinaryHeaders Capability = "binary headers"
	// Keys: a producer's message has a key, and a nil value is not an empty one.
	Keys Capability = "keys"
	// Deadline: a delivery without word of progress comes again by itself.
	Deadline Capability = "deadline"
	// IDs: a message that is published twice with one ID is stored once.
	IDs Capability = "ids"
	// AnyMark: a mark by another process is noticed by the next Mark.
	AnyMark Capability = "any mark"
	// Gone: a deleted topic ends its source.
	Gone Capability = "gone"
	// Unconfirmed: the harness can lose a confirmation.
	Unconfirmed Capability = "unconfirmed"
)

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, *world)
	}{
		{"EveryMessageIsDeliveredOnceAndInOrder", everyMessageOnce},
		{"ADeliveryHasWhatWasProduced", asProduced},
		{"ReceiveKeepsToItsLimit", receiveLimit},
		{"ReceiveEndsWithItsContextAndWithClose", receiveEnds},
		{"APausedLaneWaitsAndOthersGoOn", pause},
		{"ManyGoroutinesMaySettle", concurrency},
		{"WhatWasNotAckedComesAgainAfterACrash", crash},
		{"WhatWasAckedStaysSoAfterClose", closeKeepsAcks},
		{"AcksAfterTheEndMoveNothing", lateAcks},
		{"ADeferredDeliveryComesWhenItIsDueAndBlocksNothing", deferred},
		{"ADeferredDeliveryIsNotLostInACrash", deferredCrash},
		{"ADeferredDeliveryCostsAFewBytes", deferredBytes},
		{"WhatIsHeldDoesNotComeAgain", held},
		{"WhatIsAbandonedMayComeAgain", abandoned},
		{"CloseIsBoundedAndMayBeRepeated", closeTwice},
		{"APublishIsStoredByteForByte", published},
		{"OneTooLargeMessageFailsAlone", tooLarge},
		{"AMissingDestinationIsNamed", noDestination},
		{"AnUnknownOutcomeIsToldAndMayBeRepeated", unknownOutcome},
		{"APublishEndsWithItsContext", publishEnds},
		{"AWaitingCopyComesBackOnTheRetryLane", retryLane},
		{"StartFromChoosesWhereANewConsumerBegins", startFrom},
		{"APositionWinsOverStartFrom", positionWins},
		{"AMissingTopicIsAStartError", missingTopic},
		{"ATopicThatIsNamedTwiceIsAStartError", topicTwice},
		{"ADeletedTopicIsReported", deletedTopic},
		{"FloorsFollowTheAcks", floors},
		{"AMarkIsFoundByTheNextOwner", mark},
		{"AnotherProcessesMarkIsNoticed", markConflict},
		{"AnErrorOfAssignedEndsTheSource", assignedError},
		{"MembersShareTheWork", members},
		{"ARevokedLaneIsDrained", revoked},
		{"ABrowseShowsEveryMessageInOrder", browseOrder},
		{"ABrowseShowsWhatWasProduced", browseBytes},
		{"ABrowseShowsWhatWasPublished", browsePublished},
		{"ABrowseBeginsWhereItIsTold", browseFrom},
		{"ABrowseMayBeStoppedEarly", browseStops},
		{"ABrowseEndsAlthoughMessagesCome", browseEnds},
		{"AMissingTopicIsNamedToWhoBrowses", browseMissing},
		{"ABrowseAndAConsumerDoNotMeet", browseBeside},
		{"AnEmptyTopicShowsNothing", browseEmpty},
		{"ABrowseBeginsWhereTheTopicDoes", browseTrimmed},
		{"InspectDescribesEachTopic", inspect},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, &world{h: &h}) })
	}
}

// world is the harness and the names of one test.
type world struct {
	h        *Harness
	consumer string
}

var consumers atomic.Int64

// lacks prints the reason when the broker cannot do it.
func (w *world) lacks(t *testing.T, c Capability) bool {
	t.Helper()
	why, lacks := w.h.Lacks[c]
	if lacks {
		t.Logf("lacks %s: %s", c, why)
	}
	return lacks
}

// patience is for what must happen: many times what it takes.
func (w *world) patience() time.Duration { return 20*time.Second + 2*w.h.Takeover }

// spec is a consumer of its own for the test.
func (w *world) spec(topics ...string) brokers.Spec {
	if w.consumer == "" {
		w.consumer = fmt.Sprintf("c%d-%d", consumers.Add(1), time.Now().UnixNano()%1e9)
	}
	return brokers.Spec{
		Consumer: w.consumer, Topics: topics, StartFrom: brokers.Start{Kind: brokers.StartEarliest},
		Unfinished: brokers.Limit{Messages: 1000, Bytes: 32 << 20}, LongestWait: time.Hour, Drain: 5 * time.Second,
	}
}

func (w *world) connect(t *testing.T) brokers.Broker {
	t.Helper()
	b := w.h.Connect(t)
	t.Cleanup(func() { b.Close() })
	return b
}

func (w *world) open(t *testing.T, b brokers.Broker, spec brokers.Spec) *reader {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), w.patience())
	defer cancel()
	s, err := b.Open(ctx, spec)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	r := &reader{Source: s, w: w}
	t.Cleanup(func() { r.close(t) })
	return r
}

// start connects and opens in one step.
func (w *world) start(t *testing.T, topics ...string) (brokers.Broker, *reader) {
	t.Helper()
	b := w.connect(t)
	return b, w.open(t, b, w.spec(topics...))
}

// reader is a source with the words of tests.
type reader struct {
	brokers.Source
	w *world
}

func (r *reader) close(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil && !errors.Is(err, brokers.ErrClosed) {
		t.Logf("close: %v", err)
	}
}

var plenty = brokers.Limit{Messages: 1000, Bytes: 64 << 20}

// receive waits for n deliveries.
func (r *reader) receive(t *testing.T, n int) []*brokers.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), r.w.patience())
	defer cancel()
	var got []*brokers.Delivery
	for len(got) < n {
		more, err := r.Receive(ctx, brokers.Limit{Messages: n - len(got), Bytes: 64 << 20})
		if err != nil {
			t.Fatalf("received %d of %d (%s): %v", len(got), n, values(got), err)
		}
		got = append(got, more...)
	}
	return got
}

// nothing fails the test when a delivery comes within d.
func (r *reader) nothing(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	got, err := r.Receive(ctx, plenty)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("expected nothing, received %s, %v", values(got), err)
	}
}

func (r *reader) ack(t *testing.T, ds ...*brokers.Delivery) {
	t.Helper()
	if err := r.Ack(ds); err != nil {
		t.Fatalf("ack: %v", err)
	}
}

func (r *reader) putOff(t *testing.T, delay time.Duration, ds ...*brokers.Delivery) {
	t.Helper()
	if err := r.Defer(ds, delay); err != nil {
		t.Fatalf("defer: %v", err)
	}
}

// numbered are messages with the values prefix0, prefix1, … in partition 0.
func numbered(prefix string, n int) []brokers.Outgoing {
	first := int32(0)
	out := make([]brokers.Outgoing, n)
	for i := range out {
		out[i] = brokers.Outgoing{Value: fmt.Appendf(nil, "%s%d", prefix, i), Partition: &first}
	}
	return out
}

// values are the payloads, for a message and for comparison.
func values(ds []*brokers.Delivery) string {
	all := make([]string, len(ds))
	for i, d := range ds {
		all[i] = string(d.Value[:min(len(d.Value), 20)])
	}
	return "[" + strings.Join(all, " ") + "]"
}

// sorted is values in order of text.
func sorted(ds []*brokers.Delivery) string {
	all := make([]string, len(ds))
	for i, d := range ds {
		all[i] = string(d.Value)
	}
	slices.Sort(all)
	return "[" + strings.Join(all, " ") + "]"
}

// find is the delivery with a value.
func find(t *testing.T, ds []*brokers.Delivery, value string) *brokers.Delivery {
	t.Helper()
	for _, d := range ds {
		if string(d.Value) == value {
			return d
		}
	}
	t.Fatalf("no %q in %s", value, values(ds))
	return nil
}

// eventually polls until ok, which reports what it saw otherwise.
func (w *world) eventually(t *testing.T, ok func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(w.patience())
	for {
		good, saw := ok()
		if good {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", saw)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

package deadletter

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/brokers"
)

// foreign are the headers of an envelope, apart from those of the message.
type foreign struct {
	own  []brokers.Header
	rest []brokers.Header
}

// unwrap takes the headers apart. What begins with dl- is nobody's business.
func unwrap(headers []brokers.Header, isOwn func(name string) bool) (f foreign) {
	for _, h := range headers {
		switch {
		case isOwn(h.Key):
			f.own = append(f.own, h)
		case !IsOwnHeader(h.Key):
			f.rest = append(f.rest, h)
		}
	}
	return f
}

// first is what a message died of first, where an envelope has been added to
// another: where it is from.
func (f *foreign) first(names ...string) ([]byte, bool) {
	for _, h := range f.own {
		if slices.Contains(names, h.Key) {
			return h.Value, true
		}
	}
	return nil, false
}

// last is what it died of now.
func (f *foreign) last(names ...string) (value []byte, found bool) {
	for _, h := range f.own {
		for _, name := range names {
			if h.Key == name {
				value, found = h.Value, true
			}
		}
	}
	return value, found
}

func (f *foreign) text(most int, names ...string) string {
	value, _ := f.last(names...)
	// A stack of megabytes is cut before it is looked at.
	return line(string(value[:min(len(value), 4*most+4)]), most)
}

func (f *foreign) stack(names ...string) string {
	value, _ := f.last(names...)
	return unescapeLines(stackLine(string(value[:min(len(value), MaxStack)])))
}

// topic is exact, and nothing where it cannot be the name of one.
func (f *foreign) topic(names ...string) string {
	value, _ := f.first(names...)
	if len(value) > maxIdentity || !plain(string(value)) {
		return ""
	}
	return string(value)
}

// binary reads a big-endian number of that many bytes that is not negative.
func (f *foreign) binary(size int, names ...string) (int64, bool) {
	value, _ := f.first(names...)
	if len(value) != size {
		return 0, false
	}
	var n int64
	switch size {
	case 1:
		n = int64(int8(value[0]))
	case 4:
		n = int64(int32(binary.BigEndian.Uint32(value)))
	case 8:
		n = int64(binary.BigEndian.Uint64(value))
	}
	return n, n >= 0
}

// decimal reads a number written as text.
func (f *foreign) decimal(names ...string) (int64, bool) {
	value, _ := f.first(names...)
	if len(value) > 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil && n >= 0
}

// place is a source, with the partition and the offset only where both can be
// read: one of them alone would name another message.
func place(topic string, partition int64, okPartition bool, offset int64, okOffset bool) Source {
	s := Source{Topic: topic}
	if okPartition && okOffset && partition <= math.MaxInt32 {
		s.Partition, s.Offset = int32(partition), offset
	}
	return s
}

func anyPrefix(name string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// readSpring reads what DeadLetterPublishingRecoverer of Spring Kafka writes:
// kafka_dlt-*, or kafka_original-* and kafka_exception-* where the message went
// through the topics of @RetryableTopic. Numbers are big-endian and binary. The
// class of the exception is mostly the listener's wrapper, so its cause's is
// taken where there is one; the record's time is that of dead-lettering.
//
// Source: KafkaHeaders and RetryTopicHeaders of Spring Kafka 2.7 to 4.0.
func readSpring(d *brokers.Delivery) (Letter, bool) {
	f := unwrap(d.Headers, func(name string) bool {
		return anyPrefix(name, "kafka_dlt-", "kafka_original-", "kafka_exception-", "kafka_key-exception-", "retry_topic-", "springDeserializerException") ||
			name == "kafka_deliveryAttempt"
	})
	if _, found := f.first(springNames("original-topic")...); !found {
		if _, found = f.first(springNames("exception-fqcn")...); !found {
			return Letter{}, false
		}
	}
	partition, okPartition := f.binary(4, springNames("original-partition")...)
	offset, okOffset := f.binary(8, springNames("original-offset")...)
	l := Letter{
		Source: place(f.topic(springNames("original-topic")...), partition, okPartition, offset, okOffset),
		Error:  f.text(MaxError, springNames("exception-message")...), Stack: f.stack(springNames("exception-stacktrace")...),
		LastFailed: d.Time, Headers: f.rest,
	}
	if ms, ok := f.binary(8, springNames("original-timestamp")...); ok {
		l.Source.Time = milliseconds(ms)
	}
	if l.ErrorType = f.text(maxName, springNames("exception-cause-fqcn")...); l.ErrorType == "" {
		l.ErrorType = f.text(maxName, append(springNames("exception-fqcn"), springNames("key-exception-fqcn")...)...)
	}
	if l.Error == "" {
		l.Error = f.text(MaxError, springNames("key-exception-message")...)
	}
	for _, size := range []int{1, 4} { // it was one byte in the first releases
		if n, ok := f.binary(size, "retry_topic-attempts", "kafka_deliveryAttempt"); ok {
			l.Failures = int(n)
		}
	}
	return l, true
}

func springNames(name string) []string { return []string{"kafka_dlt-" + name, "kafka_" + name} }

// readWatermill reads what the PoisonQueue middleware of Watermill adds to the
// metadata of a message.
//
// Source: message/router/middleware/poison.go of Watermill 1.x.
func readWatermill(d *brokers.Delivery) (Letter, bool) {
	f := unwrap(d.Headers, func(name string) bool {
		return name == "reason_poisoned" || name == "topic_poisoned" || name == "handler_poisoned" || name == "subscriber_poisoned"
	})
	if _, found := f.first("reason_poisoned"); !found {
		return Letter{}, false
	}
	return Letter{
		Source: Source{Topic: f.topic("topic_poisoned")}, Error: f.text(MaxError, "reason_poisoned"),
		LastFailed: d.Time, Headers: f.rest,
	}, true
}

// readConnect reads what Kafka Connect writes with
// errors.deadletterqueue.context.headers.enable. The record's time is the
// message's own.
//
// Source: DeadLetterQueueReporter of Kafka Connect, KIP-298.
func readConnect(d *brokers.Delivery) (Letter, bool) {
	return readTextual(d, "__connect.errors.", "exception.class.name", "exception.message", "exception.stacktrace")
}

// readStreams reads what the exception handlers of Kafka Streams write. The
// record's time is the message's own.
//
// Source: KIP-1034.
func readStreams(d *brokers.Delivery) (Letter, bool) {
	return readTextual(d, "__streams.errors.", "exception", "message", "stacktrace")
}

// readTextual reads envelopes whose numbers are text.
func readTextual(d *brokers.Delivery, prefix, class, message, stack string) (Letter, bool) {
	f := unwrap(d.Headers, func(name string) bool { return strings.HasPrefix(name, prefix) })
	if len(f.own) == 0 {
		return Letter{}, false
	}
	partition, okPartition := f.decimal(prefix + "partition")
	offset, okOffset := f.decimal(prefix + "offset")
	return Letter{
		Source: place(f.topic(prefix+"topic"), partition, okPartition, offset, okOffset),
		Error:  f.text(MaxError, prefix+message), ErrorType: f.text(maxName, prefix+class), Stack: f.stack(prefix + stack),
		Headers: f.rest,
	}, true
}

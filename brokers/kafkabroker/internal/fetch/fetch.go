// Package fetch asks one broker for records of many partitions at once.
//
// kafka-go's own fetch takes one partition, hands out transaction markers and
// aborted records, and stops for good at a marker that ends a segment. This one
// uses its connections only.
package fetch

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/records"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

const (
	byName = cluster.FetchVersion // topics are named in it
	byID   = 13                   // the first version that names them by id, Kafka 3.1
)

// Codes that kafka-go has no name for.
const (
	OffsetNotAvailable  kafka.Error = 78  // the new leader does not know its high watermark yet
	UnknownTopicID      kafka.Error = 100 // the topic was deleted, or made again
	InconsistentTopicID kafka.Error = 103 // the broker and its metadata disagree, for a moment
)

// Want is one partition to read.
type Want struct {
	Topic     string
	ID        cluster.ID
	Partition int32
	Offset    int64
	MaxBytes  int32
}

// Request is one Fetch with read_committed. It serves one exchange.
type Request struct {
	Wants    []Want        // those of one topic beside each other
	MaxWait  time.Duration // how long the broker may wait for the first byte
	MaxBytes int32         // of all partitions; the first batch may pass it
	Limit    int           // bound of the answer in bytes
	ClientID string
	// Buffer is used for the answer where it is large enough. It belongs to
	// the exchange from then on: when the call fails, the answer may still be
	// on its way into it.
	Buffer []byte

	offered func(protocol.ApiKey) int16
	version int16
}

// Answer is what came. Records point into Buffer.
type Answer struct {
	Buffer  []byte
	Err     kafka.Error // of the whole request
	Results []Result
}

// Result is one partition's part.
type Result struct {
	Want       int // index in Wants
	Err        kafka.Error
	LastStable int64 // the end of it with read_committed
	LogStart   int64
	Aborted    []records.Aborted
	Records    []byte
}

// ApiKey implements protocol.Message.
func (*Request) ApiKey() protocol.ApiKey { return protocol.Fetch }

// ApiKey implements protocol.Message.
func (*Answer) ApiKey() protocol.ApiKey { return protocol.Fetch }

// Required implements protocol.RawExchanger.
func (*Request) Required(map[protocol.ApiKey]int16) bool { return true }

// Choose implements cluster.Chooser.
func (r *Request) Choose(offered func(protocol.ApiKey) int16) { r.offered = offered }

// RawExchange implements protocol.RawExchanger.
func (r *Request) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	r.version = byName
	if r.offered(protocol.Fetch) >= byID && !slices.ContainsFunc(r.Wants, func(w Want) bool { return w.ID == cluster.ID{} }) {
		r.version = byID
	}
	if _, err := rw.Write(r.encode()); err != nil {
		return nil, err
	}
	body, err := wire.ReadFrame(rw, r.Buffer, r.Limit)
	if err != nil {
		return nil, err
	}
	a, err := r.decode(body)
	if err != nil {
		return nil, fmt.Errorf("fetch v%d: %w", r.version, err)
	}
	return a, nil
}

// Source: the layouts are those of Kafka's FetchRequest.json and
// FetchResponse.json, versions 11 and 13.
func (r *Request) encode() []byte {
	flexible := r.version >= byID
	b := make([]byte, 0, 128+48*len(r.Wants))
	b = wire.AppendHeader(b, int16(protocol.Fetch), r.version, 1, r.ClientID, flexible)
	b = wire.AppendInt32(b, -1) // not a replica
	b = wire.AppendInt32(b, int32(r.MaxWait.Milliseconds()))
	b = wire.AppendInt32(b, 1) // any byte ends the wait
	b = wire.AppendInt32(b, r.MaxBytes)
	b = append(b, 1)            // read_committed
	b = wire.AppendInt32(b, 0)  // no session
	b = wire.AppendInt32(b, -1) // no session
	b = wire.AppendCount(b, topics(r.Wants), flexible)
	for i := 0; i < len(r.Wants); {
		n := 1
		for i+n < len(r.Wants) && r.Wants[i+n].Topic == r.Wants[i].Topic {
			n++
		}
		if flexible {
			b = append(b, r.Wants[i].ID[:]...)
		} else {
			b = wire.AppendString(b, r.Wants[i].Topic)
		}
		b = wire.AppendCount(b, n, flexible)
		for _, w := range r.Wants[i : i+n] {
			b = appendWant(b, w, flexible)
		}
		if flexible {
			b = append(b, 0)
		}
		i += n
	}
	b = wire.AppendCount(b, 0, flexible) // nothing to forget
	if flexible {
		b = wire.AppendCompactString(b, "") // rack
		b = append(b, 0)
	} else {
		b = wire.AppendString(b, "")
	}
	return wire.Finish(b)
}

func appendWant(b []byte, w Want, flexible bool) []byte {
	b = wire.AppendInt32(b, w.Partition)
	b = wire.AppendInt32(b, -1) // leader epoch
	b = wire.AppendInt64(b, w.Offset)
	if flexible {
		b = wire.AppendInt32(b, -1) // last fetched epoch
	}
	b = wire.AppendInt64(b, -1) // log start, for replicas
	b = wire.AppendInt32(b, w.MaxBytes)
	if flexible {
		b = append(b, 0)
	}
	return b
}

func topics(wants []Want) (n int) {
	for i := range wants {
		if i == 0 || wants[i].Topic != wants[i-1].Topic {
			n++
		}
	}
	return n
}

func (r *Request) decode(body []byte) (*Answer, error) {
	d := &wire.VersionedReader{Reader: wire.NewReader(body), Flexible: r.version >= byID}
	a := &Answer{Buffer: body}
	d.Int32() // correlation id
	d.SkipTags()
	d.Int32() // throttle
	a.Err = kafka.Error(d.Int16())
	d.Int32() // session
	a.Results = make([]Result, 0, len(r.Wants))
	at := 0
	for n := d.Count(5); n > 0 && !d.Bad(); n-- {
		var topic string
		var id cluster.ID
		if d.Flexible {
			id = d.UUID()
		} else {
			topic = d.String()
		}
		for k := d.Count(35); k > 0 && !d.Bad(); k-- {
			res := partition(d)
			index := res.Want
			at = r.find(at, topic, id, int32(index))
			if at < 0 {
				return nil, fmt.Errorf("answer for partition %d, which was not asked for", index)
			}
			res.Want = at
			a.Results = append(a.Results, res)
			at++
		}
		d.SkipTags()
	}
	d.SkipTags()
	return a, d.Err()
}

// find looks for a partition from a place on: answers come mostly in the order
// of the request.
func (r *Request) find(from int, topic string, id cluster.ID, partition int32) int {
	for i := range r.Wants {
		i = (i + from) % len(r.Wants)
		w := &r.Wants[i]
		if w.Partition == partition && (w.Topic == topic || topic == "" && w.ID == id) {
			return i
		}
	}
	return -1
}

// partition reads one result; its Want is the partition's number.
func partition(d *wire.VersionedReader) (res Result) {
	res.Want = int(d.Int32())
	res.Err = kafka.Error(d.Int16())
	d.Int64() // the high watermark: the end for consumers without transactions
	res.LastStable, res.LogStart = d.Int64(), d.Int64()
	if n := d.Count(16); n > 0 {
		res.Aborted = make([]records.Aborted, 0, n)
		for ; n > 0 && !d.Bad(); n-- {
			res.Aborted = append(res.Aborted, records.Aborted{Producer: d.Int64(), First: d.Int64()})
			d.SkipTags()
		}
	}
	d.Int32() // preferred replica
	res.Records = d.Bytes()
	d.SkipTags()
	return res
}

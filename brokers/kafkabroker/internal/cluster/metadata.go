package cluster

import (
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

const (
	metadataPlain   = 8  // the last version that kafka-go knows, without topic ids
	metadataWithIDs = 10 // Kafka 2.8
)

// ID is a topic's id, which changes when it is deleted and made again. The
// zero ID is that of a cluster that does not tell.
type ID [16]byte

// Topic is what a broker said about one topic.
type Topic struct {
	ID         ID
	Err        kafka.Error // 0 when it exists
	Partitions map[int32]Partition
}

// Partition is where a partition lives. Leader is -1 while there is none.
type Partition struct {
	Leader   int32
	Replicas int32 // how many there are to be
}

// View is one answer to Metadata.
type View struct {
	Brokers    map[int32]string // addresses by node id
	Controller int32
	Topics     map[string]Topic
}

// metadataRequest asks for named topics only, never makes one, and uses the
// version with topic ids where the broker has it.
type metadataRequest struct {
	peer    *peer
	client  string
	topics  []string
	version int16
}

type metadataAnswer struct{ View }

func (*metadataRequest) ApiKey() protocol.ApiKey                 { return protocol.Metadata }
func (*metadataAnswer) ApiKey() protocol.ApiKey                  { return protocol.Metadata }
func (*metadataRequest) Required(map[protocol.ApiKey]int16) bool { return true }

func (m *metadataRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	m.version = metadataPlain
	if m.peer.offer(protocol.Metadata) >= metadataWithIDs {
		m.version = metadataWithIDs
	}
	if _, err := rw.Write(m.encode()); err != nil {
		return nil, err
	}
	body, err := wire.ReadFrame(rw, nil, maxControl)
	if err != nil {
		return nil, err
	}
	view, err := decodeMetadata(m.version, body)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return &metadataAnswer{view}, nil
}

func (m *metadataRequest) encode() []byte {
	flexible := m.version >= metadataWithIDs
	b := wire.AppendHeader(nil, int16(protocol.Metadata), m.version, 1, m.client, flexible)
	b = wire.AppendCount(b, len(m.topics), flexible)
	for _, t := range m.topics {
		if flexible {
			b = append(b, make([]byte, 16)...) // by name, not by id
			b = append(wire.AppendCompactString(b, t), 0)
		} else {
			b = wire.AppendString(b, t)
		}
	}
	b = append(b, 0, 0, 0) // make none, no rights of the cluster, none of topics
	if flexible {
		b = append(b, 0)
	}
	return wire.Finish(b)
}

// Source: the layouts are those of Kafka's MetadataResponse.json, versions 8
// and 10.
func decodeMetadata(version int16, body []byte) (View, error) {
	r := wire.VersionedReader{Reader: wire.NewReader(body), Flexible: version >= metadataWithIDs}
	v := View{Brokers: map[int32]string{}, Topics: map[string]Topic{}}
	r.Int32() // correlation id
	r.SkipTags()
	r.Int32() // throttle
	for n := r.Count(11); n > 0; n-- {
		id, host, port := r.Int32(), r.String(), r.Int32()
		_ = r.String() // rack
		r.SkipTags()
		v.Brokers[id] = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	_ = r.String() // cluster id
	v.Controller = r.Int32()
	for n := r.Count(9); n > 0 && !r.Bad(); n-- {
		t := Topic{Err: kafka.Error(r.Int16()), Partitions: map[int32]Partition{}}
		name := r.String()
		if r.Flexible {
			t.ID = r.UUID()
		}
		r.Take(1) // internal
		for k := r.Count(18); k > 0 && !r.Bad(); k-- {
			r.Int16() // why there is no leader
			index, p := r.Int32(), Partition{Leader: r.Int32()}
			r.Int32() // epoch
			p.Replicas = int32(r.Count(4))
			r.Take(4 * int(p.Replicas))
			for range 2 {
				r.Take(4 * r.Count(4)) // in sync, offline
			}
			r.SkipTags()
			t.Partitions[index] = p
		}
		r.Int32() // rights
		r.SkipTags()
		v.Topics[name] = t
	}
	return v, r.Err()
}

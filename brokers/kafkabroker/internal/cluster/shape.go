package cluster

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/createpartitions"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/describegroups"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/protocol/syncgroup"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

// answers are the messages that kafka-go decodes for us: its own (versions,
// metadata, authentication) and those that the calls of this adapter use. Any
// other answer than these and ours is refused.
var answers = map[protocol.ApiKey]reflect.Type{
	protocol.ApiVersions:      reflect.TypeFor[apiversions.Response](),
	protocol.CreatePartitions: reflect.TypeFor[createpartitions.Response](),
	protocol.CreateTopics:     reflect.TypeFor[createtopics.Response](),
	protocol.DescribeConfigs:  reflect.TypeFor[describeconfigs.Response](),
	protocol.DescribeGroups:   reflect.TypeFor[describegroups.Response](),
	protocol.FindCoordinator:  reflect.TypeFor[findcoordinator.Response](),
	protocol.JoinGroup:        reflect.TypeFor[joingroup.Response](),
	protocol.ListOffsets:      reflect.TypeFor[listoffsets.Response](),
	protocol.Metadata:         reflect.TypeFor[metadata.Response](),
	protocol.OffsetCommit:     reflect.TypeFor[offsetcommit.Response](),
	protocol.OffsetFetch:      reflect.TypeFor[offsetfetch.Response](),
	protocol.SaslAuthenticate: reflect.TypeFor[saslauthenticate.Response](),
	protocol.SaslHandshake:    reflect.TypeFor[saslhandshake.Response](),
	protocol.SyncGroup:        reflect.TypeFor[syncgroup.Response](),
}

// check reads one value without keeping it, so that each length in it has been
// compared with what is there.
type check func(*wire.Reader)

type shapeKey struct {
	key     protocol.ApiKey
	version int16
}

var shapes sync.Map // shapeKey → check

// checkAnswer says whether kafka-go can decode body, an answer without its
// size word, with no more memory than body justifies.
func checkAnswer(key protocol.ApiKey, version int16, body []byte) error {
	c, err := shapeOf(key, version)
	if err != nil {
		return err
	}
	r := wire.NewReader(body)
	c(&r)
	return r.Err()
}

func shapeOf(key protocol.ApiKey, version int16) (check, error) {
	id := shapeKey{key, version}
	if c, ok := shapes.Load(id); ok {
		return c.(check), nil
	}
	t, ok := answers[key]
	if !ok {
		return nil, fmt.Errorf("answer to %v is not one of ours", key)
	}
	flexible := isFlexible(t, version)
	body := compile(t, version, flexible)
	c := check(func(r *wire.Reader) {
		r.Int32() // correlation id
		if flexible {
			r.SkipTags()
		}
		body(r)
	})
	shapes.Store(id, c)
	return c, nil
}

// compile follows the struct tags by which kafka-go itself decodes.
func compile(t reflect.Type, version int16, flexible bool) check {
	switch t.Kind() {
	case reflect.Bool, reflect.Int8:
		return func(r *wire.Reader) { r.Take(1) }
	case reflect.Int16:
		return func(r *wire.Reader) { r.Take(2) }
	case reflect.Int32:
		return func(r *wire.Reader) { r.Take(4) }
	case reflect.Int64, reflect.Float64:
		return func(r *wire.Reader) { r.Take(8) }
	case reflect.String:
		if flexible {
			return func(r *wire.Reader) { r.CompactBytes() }
		}
		return func(r *wire.Reader) {
			if n := r.Int16(); n > 0 {
				r.Take(int(n))
			}
		}
	case reflect.Struct:
		return compileStruct(t, version, flexible)
	case reflect.Slice:
		return compileSlice(t, version, flexible)
	}
	panic("kafkabroker: kafka-go has a field of a kind that is not known here: " + t.String())
}

func compileSlice(t reflect.Type, version int16, flexible bool) check {
	if t.Elem().Kind() == reflect.Uint8 {
		if flexible {
			return func(r *wire.Reader) { r.CompactBytes() }
		}
		return func(r *wire.Reader) { r.Bytes() }
	}
	element := compile(t.Elem(), version, flexible)
	return func(r *wire.Reader) {
		var n int
		if flexible {
			n = r.CompactCount(1)
		} else {
			n = r.Count(1)
		}
		for ; n > 0 && !r.Bad(); n-- {
			element(r)
		}
	}
}

func compileStruct(t reflect.Type, version int16, flexible bool) check {
	var fields []check
	for f := range t.Fields() {
		if f.PkgPath != "" && f.Name != "_" {
			continue
		}
		for _, tag := range tagsOf(f) {
			if tag.min <= version && version <= tag.max {
				if !tag.tagged {
					fields = append(fields, compile(f.Type, version, flexible))
				}
				break
			}
		}
	}
	return func(r *wire.Reader) {
		for _, f := range fields {
			if r.Bad() {
				return
			}
			f(r)
		}
		if flexible {
			r.SkipTags()
		}
	}
}

type tag struct {
	min, max int16
	tagged   bool
}

// tagsOf parses `kafka:"min=v0,max=v4|min=v5,max=v5,compact"`.
func tagsOf(f reflect.StructField) (tags []tag) {
	for one := range strings.SplitSeq(f.Tag.Get("kafka"), "|") {
		t := tag{min: -1, max: -1}
		for word := range strings.SplitSeq(one, ",") {
			switch {
			case strings.HasPrefix(word, "min=v"):
				t.min = number(word[len("min=v"):])
			case strings.HasPrefix(word, "max=v"):
				t.max = number(word[len("max=v"):])
			case strings.HasPrefix(word, "tag"):
				t.tagged = true
			}
		}
		tags = append(tags, t)
	}
	return tags
}

func number(s string) int16 {
	n, err := strconv.ParseInt(s, 10, 16)
	if err != nil {
		panic("kafkabroker: kafka-go has a version tag that is not known here: " + s)
	}
	return int16(n)
}

// isFlexible: kafka-go marks a message by one tagged field.
func isFlexible(t reflect.Type, version int16) bool {
	for f := range t.Fields() {
		for _, tag := range tagsOf(f) {
			if tag.tagged && version >= tag.min {
				return true
			}
		}
	}
	return false
}

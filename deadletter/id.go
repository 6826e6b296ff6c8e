package deadletter

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/onceward/onceward/dedup"
)

// ID names the incident of a keyed message: a run of an operation that ended
// badly. opened is the fence that opened the run ([dedup.Record.Opened]), so
// that the same letter written twice has one id, and the next run's another.
// It is 32 hexadecimal digits, as all ids here.
func ID(key dedup.Key, opened uint64) string {
	d := newDigest("run").text(key.Consumer).text(key.Scope).text(key.ID)
	return d.number(opened).hex()
}

// ConflictID names the incident of a message whose key belongs to another
// content: one for each content, however often it is sent.
func ConflictID(key dedup.Key, opened uint64, fp dedup.Fingerprint) string {
	d := newDigest("conflict").text(key.Consumer).text(key.Scope).text(key.ID)
	return d.number(opened).number(uint64(fp.Rule)).text(string(fp.Sum[:])).hex()
}

// IDAt names the incident of a message without a usable key, or one that is
// too old, by where it lies. source is [Source.Identity], which changes when
// the topic or stream is made anew. The reason takes part, since a message that
// could not be decoded by one release and has no key for the next is open
// again.
func IDAt(consumer, source string, partition int32, offset int64, reason Reason) string {
	d := newDigest("position").text(consumer).text(source)
	return d.number(uint64(uint32(partition))).number(uint64(offset)).text(string(reason)).hex()
}

// digest writes each part with its length, so that no two sequences of parts
// are the same bytes.
type digest []byte

func newDigest(of string) digest { return make(digest, 0, 256).text("onceward letter 1").text(of) }

func (d digest) text(s string) digest { return append(d.number(uint64(len(s))), s...) }

func (d digest) number(n uint64) digest { return binary.AppendUvarint(d, n) }

func (d digest) hex() string {
	sum := sha256.Sum256(d)
	return hex.EncodeToString(sum[:16])
}

package deadletter

import (
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/digest"
)

// ID names the incident of a keyed message: a run of an operation that ended
// badly. opened is the fence that opened the run ([dedup.Record.Opened]), so
// that the same letter written twice has one id, and the next run's another.
// It is 32 hexadecimal digits, as all ids here.
func ID(key dedup.Key, opened uint64) string {
	d := newDigest("run").Text(key.Consumer).Text(key.Scope).Text(key.ID)
	return d.Number(opened).ID()
}

// ConflictID names the incident of a message whose key belongs to another
// content: one for each content, however often it is sent.
func ConflictID(key dedup.Key, opened uint64, fp dedup.Fingerprint) string {
	d := newDigest("conflict").Text(key.Consumer).Text(key.Scope).Text(key.ID)
	return d.Number(opened).Number(uint64(fp.Rule)).Text(string(fp.Sum[:])).ID()
}

// IDAt names the incident of a message without a usable key, or one that is
// too old, by where it lies. source is [Source.Identity], which changes when
// the topic or stream is made anew. The reason takes part, since a message that
// could not be decoded by one release and has no key for the next is open
// again.
func IDAt(consumer, source string, partition int32, offset int64, reason Reason) string {
	d := newDigest("position").Text(consumer).Text(source)
	return d.Number(uint64(uint32(partition))).Number(uint64(offset)).Text(string(reason)).ID()
}

func newDigest(of string) digest.Parts { return digest.Of("onceward letter 1").Text(of) }

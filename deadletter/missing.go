package deadletter

import (
	"context"
	"strings"
	"time"

	"github.com/onceward/onceward/dedup"
)

// settled is how old a note must be before its letter is missed: what was
// written while the topic was read is not in what was read.
const settled = time.Hour

// missing adds to a plan the letters of this topic that are noted as open or
// held, and that were not come upon in it.
func (q *Queue) missing(ctx context.Context, p *Plan, seen map[[16]byte]struct{}, source string, d *draft) error {
	for n, err := range q.Store.ScanLetters(ctx, q.Consumer) {
		if err != nil {
			return err
		}
		if source != "" {
			break
		}
		source = q.source(topicOf(n.Source.Source))
	}
	if source == "" {
		return nil
	}
	for n, err := range q.Store.ScanLetters(ctx, q.Consumer) {
		if err != nil {
			return err
		}
		if _, there := seen[short(n.ID)]; there || !q.misses(&n, source, p.Created) {
			continue
		}
		it := &item{
			ID: n.ID, Reason: Reason(n.Reason), Letter: noteSeen{State: n.State.String(), Run: n.Run},
			Decision: Decision{Action: Miss, Why: "its message is not in the topic any more"},
		}
		if !n.Key.OfLetter() {
			it.Scope, it.Key = n.Key.Scope, n.Key.ID
		}
		if err := d.put(it, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// source is topic where its letters lie in that of the queue, and else empty.
func (q *Queue) source(topic string) string {
	if topic == "" || q.Broker.Destinations(q.Consumer, topic).DeadLetter != q.Topic {
		return ""
	}
	return topic
}

// misses says whether the letter of a note ought to lie in this topic, which has
// those of source and of its retry topic, or stream. Letters of other topics of
// the consumer lie elsewhere, and what others have written lies anywhere.
func (q *Queue) misses(n *dedup.Letter, source string, now time.Time) bool {
	topic, retry := topicOf(n.Source.Source), q.Broker.Destinations(q.Consumer, source).Retry
	return (n.State == dedup.LetterOpen || n.State == dedup.LetterHeld) && n.Job == "" && n.Moved.Add(settled).Before(now) &&
		topic != "" && (topic == source || topic == retry || topic+"."+q.Consumer == retry)
}

// topicOf is the topic or stream of an identity, see [brokers.Lane]; empty where
// that does not say.
func topicOf(identity string) string {
	return identity[:max(strings.LastIndexByte(identity, '@'), 0)]
}

package consumer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/adminapi"
)

// ownTopics are the topics that are the consumer's to show: those that it
// reads, and its destinations. On JetStream a subject is its own where the
// stream that holds it is one that it reads.
type ownTopics struct {
	c      *Consumer
	reads  map[string]bool // with the retry destinations: what may be published to
	writes map[string]bool // the dead letters

	mu       sync.Mutex
	subjects map[string]time.Time // found to be its own, until when that is believed
}

const (
	subjectsFor = time.Minute // streams change their subjects rarely
	maxSubjects = 10_000
)

func newOwnTopics(c *Consumer) *ownTopics {
	o := &ownTopics{c: c, reads: map[string]bool{}, writes: map[string]bool{}, subjects: map[string]time.Time{}}
	for _, topic := range c.cfg.Topics {
		d := c.cfg.Broker.Destinations(c.cfg.Name, topic)
		o.reads[topic], o.reads[d.Retry], o.writes[d.DeadLetter] = true, true, true
	}
	return o
}

// refuse says why one of the topics is not shown, or not published to.
func (o *ownTopics) refuse(ctx context.Context, topics []string, publish bool) *refusal {
	var unknown []string
	for _, topic := range topics {
		switch {
		case topic == "" || len(topic) > maxTopicName:
			return refuse(http.StatusBadRequest, adminapi.CodeRequest, fmt.Sprintf("topic must be 1 to %d bytes", maxTopicName))
		case o.reads[topic] || o.writes[topic] && !publish:
		case o.writes[topic]:
			return refuse(http.StatusForbidden, adminapi.CodeForbidden, quoteBounded(topic)+" holds dead letters, which only the consumer writes")
		case !o.known(topic):
			unknown = append(unknown, topic)
		}
	}
	browser, ok := o.c.cfg.Broker.(brokers.Browser)
	switch {
	case len(unknown) == 0:
		return nil
	case !ok:
		return o.foreign(unknown[0])
	}
	infos, err := browser.Inspect(ctx, slices.Concat(unknown, o.c.cfg.Topics))
	if err == nil && len(infos) != len(unknown)+len(o.c.cfg.Topics) {
		err = errors.New("the broker did not inspect every topic")
	}
	if err != nil {
		return failed(err)
	}
	for i, topic := range unknown {
		if !slices.ContainsFunc(infos[len(unknown):], func(own brokers.TopicInfo) bool {
			return own.Identity != "" && own.Identity == infos[i].Identity
		}) {
			return o.foreign(topic)
		}
		o.learn(topic)
	}
	return nil
}

func (o *ownTopics) foreign(topic string) *refusal {
	return refuse(http.StatusForbidden, adminapi.CodeForbidden, fmt.Sprintf("%s is no topic of consumer %s", quoteBounded(topic), o.c.cfg.Name))
}

func (o *ownTopics) known(subject string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Now().Before(o.subjects[subject])
}

func (o *ownTopics) learn(subject string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.subjects) >= maxSubjects {
		clear(o.subjects)
	}
	o.subjects[subject] = time.Now().Add(subjectsFor)
}

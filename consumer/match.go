package consumer

import (
	"slices"
	"strings"

	"github.com/onceward/onceward/internal/subject"
)

// HeaderIs matches deliveries whose first header of that name has exactly this
// value.
func HeaderIs(name, value string) Match {
	return Match{Rule: "header " + name + "=" + value, Is: func(d *Delivery) bool {
		for i := range d.Headers {
			if d.Headers[i].Key == name {
				return string(d.Headers[i].Value) == value
			}
		}
		return false
	}}
}

// TopicIs matches deliveries that were first published to one of these topics
// or streams.
func TopicIs(topics ...string) Match {
	topics = slices.Clone(topics)
	return Match{Rule: "topic " + strings.Join(topics, " or "), Is: func(d *Delivery) bool {
		return slices.Contains(topics, d.Topic)
	}}
}

// SubjectIs matches JetStream deliveries by subject, with the wildcards of
// NATS: "*" stands for one token, ">" at the end for one or more.
func SubjectIs(pattern string) Match {
	return Match{Rule: "subject " + pattern, Is: func(d *Delivery) bool { return subject.Matches(pattern, d.Subject) }}
}

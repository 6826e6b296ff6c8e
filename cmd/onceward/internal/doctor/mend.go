package doctor

import (
	"fmt"
	"strings"
)

// stream is the JetStream stream of one of the names: those of destinations are
// subjects, STREAM.CONSUMER.
func (t *Topics) stream(n int) string {
	stream, _, _ := strings.Cut(t.Names[n], ".")
	return stream
}

// create is the command that makes a topic or stream.
func (t *Topics) create(n int) string {
	if t.JetStream {
		// As the consumer's own error at its start says.
		retention, discard := "limits", "new"
		switch n {
		case 0:
			discard = "old"
		case 2:
			retention = "work"
		}
		return fmt.Sprintf("nats stream add %s --subjects='%s.>' --storage=file --retention=%s --discard=%s --replicas=%d --defaults",
			t.stream(n), t.stream(n), retention, discard, max(t.Source.Replicas, 1))
	}
	partitions := max(t.Source.Partitions, 1)
	return fmt.Sprintf("kafka-topics.sh --create --topic %s --partitions %d --replication-factor 3 --config min.insync.replicas=2 --config retention.ms=-1", t.Names[n], partitions)
}

// alter is the command that changes a setting.
func (t *Topics) alter(n int, kafka, nats string) string {
	if t.JetStream {
		return "nats stream edit " + t.stream(n) + " " + nats
	}
	return fmt.Sprintf("kafka-configs.sh --alter --entity-type topics --entity-name %s --add-config %s", t.Names[n], kafka)
}

// larger is what lets a topic take larger messages.
func (t *Topics) larger(n int, size int64) string {
	return t.alter(n, fmt.Sprintf("max.message.bytes=%d", size), fmt.Sprintf("--max-msg-size=%d, and max_payload of the server at least as large", size))
}

// replicate is what gives a topic more replicas.
func (t *Topics) replicate(n int) string {
	if t.JetStream {
		return "nats stream edit " + t.stream(n) + " --replicas=3, which takes a cluster of three servers"
	}
	return "kafka-reassign-partitions.sh, with three replicas for each partition of " + t.Names[n]
}

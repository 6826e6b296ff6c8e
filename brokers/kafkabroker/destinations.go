package kafkabroker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
)

const (
	// letterRoom is what a letter or a waiting copy may be larger than its
	// message: its headers are 8 KiB at most.
	letterRoom = 64 << 10
	// retention is that of topics that are made, where nothing longer is
	// needed: letters are kept for a person to come back to.
	retention = 14 * 24 * time.Hour
	// creating bounds the making of topics. It is less than a call's bound, so
	// that the broker answers before it is given up.
	creating = cluster.Short - time.Second

	topicResource = 2 // of DescribeConfigs
)

// remark is trouble that does not keep a source from starting.
type remark struct {
	what string
	err  error
}

// settings are the configuration of a topic that matters here.
type settings struct {
	maxBytes  int64
	retention time.Duration // -1: for ever
	kept      int64         // bytes of a partition, -1: all
	inSync    int64
	compacted bool
	deleted   bool // at the limits of retention and kept
}

// prepare checks the destinations of topics that exist, and makes missing ones
// where told.
func (b *broker) prepare(ctx context.Context, spec brokers.Spec, topics []string) ([]remark, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	var names []string
	for _, t := range topics {
		d := b.Destinations(spec.Consumer, t)
		names = append(names, d.DeadLetter, d.Retry)
	}
	view, err := b.cluster.Metadata(ctx, slices.Concat(topics, names))
	if err != nil {
		return nil, err
	}
	sources, _, err := b.describe(ctx, topics)
	if err != nil {
		return nil, err
	}
	var missing, there []string
	for _, n := range names {
		switch code := view.Topics[n].Err; code {
		case 0:
			there = append(there, n)
		case kafka.UnknownTopicOrPartition:
			missing = append(missing, n)
		default:
			return nil, topicFault(n, code)
		}
	}
	if len(missing) > 0 {
		if !b.cfg.Create {
			return nil, b.notThere(spec, missing)
		}
		if err := b.create(ctx, spec, topics, missing, view, sources); err != nil {
			return nil, err
		}
	}
	return b.check(ctx, spec, topics, there, view, sources)
}

func (b *broker) notThere(spec brokers.Spec, missing []string) error {
	also := ""
	if len(missing) > 1 {
		also = ", and the same for " + strings.Join(missing[1:], ", ")
	}
	return &brokers.StartError{
		What:  fmt.Sprintf("open consumer %q", spec.Consumer),
		Wrong: fmt.Sprintf("%s missing: %s", plural(len(missing), "topic is", "topics are"), strings.Join(missing, ", ")),
		Mend: fmt.Sprintf("set Create, or run kafka-topics --bootstrap-server %s --create --topic %s --config retention.ms=%d%s",
			b.cfg.Brokers[0], missing[0], max(retention, 2*spec.LongestWait).Milliseconds(), also),
	}
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// create makes missing destinations.
func (b *broker) create(ctx context.Context, spec brokers.Spec, topics, missing []string, view cluster.View, sources map[string]settings) error {
	req := &createtopics.Request{TimeoutMs: int32(creating.Milliseconds())}
	for _, t := range topics {
		d := b.Destinations(spec.Consumer, t)
		for _, name := range []string{d.DeadLetter, d.Retry} {
			if !slices.Contains(missing, name) {
				continue
			}
			configs := []createtopics.RequestConfig{
				{Name: "cleanup.policy", Value: "delete"},
				{Name: "retention.ms", Value: strconv.FormatInt(max(retention, 2*spec.LongestWait).Milliseconds(), 10)},
			}
			if s, ok := sources[t]; ok && s.maxBytes > 0 {
				configs = append(configs, createtopics.RequestConfig{Name: "max.message.bytes", Value: strconv.FormatInt(s.maxBytes+letterRoom, 10)})
			}
			req.Topics = append(req.Topics, createtopics.RequestTopic{
				Name: name, NumPartitions: int32(max(1, len(view.Topics[t].Partitions))), ReplicationFactor: -1, Configs: configs,
			})
		}
	}
	// Any broker passes it on to the controller, save before Kafka 3; to reach
	// two is harmless.
	res, err := b.cluster.Any(ctx, req)
	if err == nil && notController(res.(*createtopics.Response)) {
		res, err = b.cluster.Controller(ctx, cluster.Short, req)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", strings.Join(missing, ", "), err)
	}
	for _, t := range res.(*createtopics.Response).Topics {
		switch code := kafka.Error(t.ErrorCode); code {
		case 0, kafka.TopicAlreadyExists: // another process of the group was faster
		case kafka.NotController, kafka.RequestTimedOut:
			return fmt.Errorf("create topic %q: %w", t.Name, code)
		default:
			return &brokers.StartError{What: fmt.Sprintf("create topic %q", t.Name), Wrong: cmp.Or(t.ErrorMessage, code.Title()), Err: code}
		}
	}
	return b.visible(ctx, missing)
}

func notController(res *createtopics.Response) bool {
	return slices.ContainsFunc(res.Topics, func(t createtopics.ResponseTopic) bool { return kafka.Error(t.ErrorCode) == kafka.NotController })
}

// visible waits until new topics have leaders: making them ends before all
// brokers know.
func (b *broker) visible(ctx context.Context, names []string) error {
	for {
		view, err := b.cluster.Metadata(ctx, names)
		if err == nil && !slices.ContainsFunc(names, func(n string) bool {
			t := view.Topics[n]
			return t.Err != 0 || len(t.Partitions) == 0 || slices.ContainsFunc(slices.Collect(maps.Values(t.Partitions)), func(p cluster.Partition) bool { return p.Leader < 0 })
		}) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for new topics %s: %w", strings.Join(names, ", "), ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// check looks at destinations that were there before.
func (b *broker) check(ctx context.Context, spec brokers.Spec, topics, there []string, view cluster.View, sources map[string]settings) ([]remark, error) {
	have, notes, err := b.describe(ctx, there)
	if err != nil {
		return nil, err
	}
	for _, t := range topics {
		d := b.Destinations(spec.Consumer, t)
		for _, name := range []string{d.DeadLetter, d.Retry} {
			s, ok := have[name]
			if !ok {
				continue
			}
			what := fmt.Sprintf("open consumer %q", spec.Consumer)
			if s.compacted {
				return nil, &brokers.StartError{What: what, Wrong: fmt.Sprintf("topic %q is compacted: of messages with one key all but the last would be lost", name),
					Mend: fmt.Sprintf("kafka-configs --alter --topic %s --add-config cleanup.policy=delete", name)}
			}
			if name == d.Retry && s.retention >= 0 && s.retention <= spec.LongestWait {
				return nil, &brokers.StartError{What: what, Wrong: fmt.Sprintf("topic %q keeps messages for %v, and they wait up to %v there", name, s.retention, spec.LongestWait),
					Mend: fmt.Sprintf("kafka-configs --alter --topic %s --add-config retention.ms=%d", name, (2 * spec.LongestWait).Milliseconds())}
			}
			if n, m := len(view.Topics[name].Partitions), len(view.Topics[t].Partitions); n < m {
				notes = append(notes, remark{"topic " + name, fmt.Errorf("has %d partitions, %s has %d: messages of several partitions share one", n, t, m)})
			}
			if src, ok := sources[t]; ok && s.maxBytes < src.maxBytes+letterRoom {
				notes = append(notes, remark{"topic " + name + " max.message.bytes", fmt.Errorf("is %d, and %s allows %d: the largest messages do not fit with their headers", s.maxBytes, t, src.maxBytes)})
			}
		}
	}
	return notes, nil
}

// describe reads the configuration of topics. Where this is not allowed it is
// a remark.
func (b *broker) describe(ctx context.Context, topics []string) (map[string]settings, []remark, error) {
	if len(topics) == 0 {
		return nil, nil, nil
	}
	req := &describeconfigs.Request{}
	for _, t := range topics {
		req.Resources = append(req.Resources, describeconfigs.RequestResource{
			ResourceType: topicResource, ResourceName: t,
			ConfigNames: []string{"max.message.bytes", "retention.ms", "retention.bytes", "cleanup.policy", "min.insync.replicas"},
		})
	}
	res, err := b.cluster.Any(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	found := map[string]settings{}
	var notes []remark
	for _, r := range res.(*describeconfigs.Response).Resources {
		if r.ErrorCode != 0 {
			notes = append(notes, remark{"topic " + r.ResourceName + " configuration", fmt.Errorf("cannot be checked: %w", kafka.Error(r.ErrorCode))})
			continue
		}
		s := settings{retention: -1, kept: -1, deleted: true}
		for _, e := range r.ConfigEntries {
			n, _ := strconv.ParseInt(e.ConfigValue, 10, 64)
			switch e.ConfigName {
			case "max.message.bytes":
				s.maxBytes = n
			case "retention.ms":
				if n >= 0 && n < int64(1<<62/time.Millisecond) {
					s.retention = time.Duration(n) * time.Millisecond
				}
			case "retention.bytes":
				s.kept = n
			case "min.insync.replicas":
				s.inSync = n
			case "cleanup.policy":
				s.compacted = strings.Contains(e.ConfigValue, "compact")
				s.deleted = strings.Contains(e.ConfigValue, "delete")
			}
		}
		found[r.ResourceName] = s
	}
	return found, notes, nil
}

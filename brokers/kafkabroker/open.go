package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/group"
	"github.com/onceward/onceward/internal/serial"
)

// rosterPatience is how long a rebalance may hide what the members of a group are.
const rosterPatience = 5 * time.Second

// topicName is what Kafka allows, in length and letters.
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Open implements [brokers.Broker].
func (b *broker) Open(ctx context.Context, spec brokers.Spec) (brokers.Source, error) {
	what := fmt.Sprintf("open consumer %q", spec.Consumer)
	if err := b.checkSpec(spec); err != nil {
		return nil, &brokers.StartError{What: what, Wrong: "spec", Err: err}
	}
	spec.Topics = slices.Clone(spec.Topics)
	s, err := b.open(ctx, spec)
	if err == nil {
		return s, nil
	}
	if errors.As(err, new(*brokers.StartError)) {
		return nil, err
	}
	if fault := b.terminal(what, err); fault != nil {
		return nil, fault
	}
	return nil, fmt.Errorf("%s: %w", what, err)
}

func (b *broker) checkSpec(spec brokers.Spec) error {
	wrong := []error{spec.Validate()}
	if !topicName.MatchString(spec.Consumer) {
		wrong = append(wrong, errors.New("Consumer must be 1 to 249 letters, digits, '.', '_' or '-'"))
	}
	for _, t := range spec.Topics {
		d := b.Destinations(spec.Consumer, t)
		if !topicName.MatchString(t) || !topicName.MatchString(d.DeadLetter) || !topicName.MatchString(d.Retry) {
			wrong = append(wrong, fmt.Errorf("topic %q is no name of a topic, or too long for its destinations", t))
		}
	}
	return errors.Join(wrong...)
}

func (b *broker) open(ctx context.Context, spec brokers.Spec) (brokers.Source, error) {
	reads := map[string]string{}
	for _, t := range spec.Topics {
		reads[t] = t
		reads[b.Destinations(spec.Consumer, t).Retry] = t
	}
	view, err := b.cluster.Metadata(ctx, spec.Topics)
	if err != nil {
		return nil, err
	}
	there, err := b.existing(spec, view.Topics)
	if err != nil {
		return nil, err
	}
	notes, err := b.prepare(ctx, spec, there)
	if err != nil {
		return nil, err
	}
	if err := b.checkRoster(ctx, spec); err != nil {
		return nil, err
	}
	if view, err = b.cluster.Metadata(ctx, slices.Sorted(maps.Keys(reads))); err != nil {
		return nil, err
	}
	if err := b.checkPredecessor(ctx, spec, view.Topics); err != nil {
		return nil, err
	}
	s := b.newSource(spec, reads)
	s.remark(notes)
	s.heard(view.Topics)
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// existing lists the topics that are there. One that is missing among others
// is waited for; if none is, it is probably a wrong name.
func (b *broker) existing(spec brokers.Spec, topics map[string]cluster.Topic) (there []string, err error) {
	for _, t := range spec.Topics {
		switch code := topics[t].Err; code {
		case 0:
			there = append(there, t)
		case kafka.UnknownTopicOrPartition:
		default:
			return nil, topicFault(t, code)
		}
	}
	if len(there) == 0 {
		return nil, &brokers.StartError{
			What: fmt.Sprintf("open consumer %q", spec.Consumer), Wrong: "no such topic: " + strings.Join(spec.Topics, ", "),
			Mend: fmt.Sprintf("check the name, or run kafka-topics --bootstrap-server %s --create --topic %s", b.cfg.Brokers[0], spec.Topics[0]),
		}
	}
	return there, nil
}

// topicFault is the error for a topic that cannot be used as it is.
func topicFault(name string, code kafka.Error) error {
	if code == kafka.TopicAuthorizationFailed || code == kafka.InvalidTopic {
		return &brokers.StartError{What: fmt.Sprintf("open topic %q", name), Wrong: code.Title(), Err: code}
	}
	return fmt.Errorf("topic %q: %w", name, code)
}

// checkRoster refuses to join a group of other software.
func (b *broker) checkRoster(ctx context.Context, spec brokers.Spec) error {
	if b.cfg.AllowForeignMembers {
		return nil
	}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		foreign, err := group.Foreign(ctx, b.cluster, spec.Consumer, rosterPatience)
		switch {
		case errors.Is(err, kafka.GroupAuthorizationFailed):
			return &brokers.StartError{What: fmt.Sprintf("describe group %q", spec.Consumer), Wrong: "not authorized", Err: err}
		case err != nil && (errors.Is(err, kafka.GroupCoordinatorNotAvailable) || errors.Is(err, kafka.GroupLoadInProgress) || errors.Is(err, kafka.NotCoordinatorForGroup)):
			// The first group of a cluster: its topic of positions is being made.
			select {
			case <-ctx.Done():
				return err
			case <-time.After(pause):
			}
			continue
		case err != nil:
			return err
		case len(foreign) > 0:
			return &brokers.StartError{
				What:  fmt.Sprintf("join group %q", spec.Consumer),
				Wrong: "members of other software are in it: " + strings.Join(foreign, "; "),
				Mend:  "stop them, choose another consumer name, or set AllowForeignMembers",
			}
		}
		return nil
	}
}

// checkPredecessor refuses to take over from a group that never was: it would
// run all of history again.
func (b *broker) checkPredecessor(ctx context.Context, spec brokers.Spec, topics map[string]cluster.Topic) error {
	if spec.StartFrom.Kind != brokers.StartGroup {
		return nil
	}
	var ps []coop.Partition
	for _, t := range spec.Topics {
		ps = append(ps, partitionsOf(t, len(topics[t].Partitions))...)
	}
	for _, name := range []string{spec.StartFrom.Group, spec.Consumer} {
		found, err := group.PositionsOf(ctx, b.cluster, name, ps)
		if err != nil || len(found) > 0 {
			return err
		}
	}
	return &brokers.StartError{
		What:  fmt.Sprintf("open consumer %q", spec.Consumer),
		Wrong: fmt.Sprintf("it is to begin where group %q stands, and that group has no position on %s", spec.StartFrom.Group, strings.Join(spec.Topics, ", ")),
		Mend:  "check the group's name with kafka-consumer-groups --list",
	}
}

func (b *broker) newSource(spec brokers.Spec, reads map[string]string) *source {
	if spec.Drain <= 0 {
		spec.Drain = brokers.DefaultDrain
	}
	chan1 := func() chan struct{} { return make(chan struct{}, 1) }
	s := &source{
		b: b, cfg: b.cfg, spec: spec, reads: reads, events: serial.New(),
		left: make(chan struct{}), joined: make(chan struct{}),
		hungry: chan1(), pump: chan1(), later: chan1(), stale: chan1(), turns: chan1(),
		byClaim: map[group.Claim]*lane{}, byLane: map[*brokers.Lane]*lane{},
		topics: map[string]cluster.Topic{}, known: map[string]cluster.ID{}, flights: map[int32]int{}, seen: map[string]bool{},
	}
	s.trouble = &trouble{events: s.events, tell: spec.Events.Degraded, open: map[string]string{}}
	s.life, s.end = context.WithCancel(context.Background())
	s.over, s.cease = context.WithCancel(context.Background())
	s.member = newMembership(group.Config{
		Cluster: b.cluster, Group: spec.Consumer, Instance: b.cfg.InstanceID,
		Session: b.cfg.SessionTimeout, Rebalance: b.cfg.RebalanceTimeout, Heartbeat: b.cfg.Heartbeat, Drain: spec.Drain,
		Leads: leads(spec.Consumer), Healthy: s.healthy(),
		Assigned: s.assigned, Revoked: s.revoked, Lost: s.lost,
		Joined: s.settled,
		Trouble: func(err error) {
			if err == nil {
				s.trouble.over("group")
				return
			}
			s.trouble.report("group", err)
		},
		Foreign: func(names []string) {
			if len(names) == 0 || b.cfg.AllowForeignMembers {
				s.trouble.over("group members")
				return
			}
			s.trouble.report("group members", fmt.Errorf("members of other software joined: %s", strings.Join(names, ", ")))
		},
	}, reads, b.cfg.AllowForeignMembers)
	return s
}

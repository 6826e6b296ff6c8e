package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
)

const (
	embedded   = "embedded" // in place of addresses: a cluster in this process
	partitions = 4
)

// kafka looks at a Kafka cluster with a client that has nothing to do with
// the one that onceward uses.
type kafka struct {
	cluster *kfake.Cluster // nil when it is somebody else's
	client  *kgo.Client
	seeds   []string
	names   consumerConfig
	sent    map[place]int // index of the message
}

// place is where a message lies in the topic.
type place struct {
	partition int32
	offset    int64
}

var _ broker = (*kafka)(nil)

// startKafka connects to the cluster at the addresses, or starts one in this
// process, and makes a topic that nobody else uses.
func startKafka(ctx context.Context, addresses string) (*kafka, error) {
	run := "onceward-quickstart-" + strings.ToLower(rand.Text()[:8])
	b := &kafka{seeds: strings.Split(addresses, ","), sent: map[place]int{}}
	var err error
	if addresses == embedded {
		if b.cluster, err = kfake.NewCluster(kfake.NumBrokers(1)); err != nil {
			return nil, fmt.Errorf("Kafka cluster: %w", err)
		}
		b.seeds = b.cluster.ListenAddrs()
	}
	b.names = consumerConfig{Broker: "kafka", Address: strings.Join(b.seeds, ","), Topic: run, Name: run + "-billing"}
	b.client, err = kgo.NewClient(
		kgo.SeedBrokers(b.seeds...), kgo.DefaultProduceTopic(b.names.Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err == nil {
		err = b.makeTopic(ctx)
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("Kafka at %s: %w", b.names.Address, err)
	}
	return b, nil
}

func connectKafka(ctx context.Context, c consumerConfig) (brokers.Broker, error) {
	return kafkabroker.Connect(ctx, kafkabroker.Config{
		Brokers: strings.Split(c.Address, ","), Create: true,
		// A process that was killed comes back under the same name, so the
		// cluster need not find out first that it is dead.
		InstanceID:     "quickstart",
		CommitInterval: 100 * time.Millisecond, // the proof waits for the last one
	})
}

func (b *kafka) consumer() consumerConfig { return b.names }

func (b *kafka) makeTopic(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 15_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = b.names.Topic, partitions, -1
	request.Topics = append(request.Topics, topic)
	made, err := request.RequestWith(ctx, b.client)
	if err != nil {
		return err
	}
	for _, t := range made.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("make topic %s: %w", t.Topic, err)
		}
	}
	return nil
}

// publish spreads the messages over the partitions in turn, so that a repeat
// mostly comes from another one.
func (b *kafka) publish(ctx context.Context, messages []message) error {
	const chunk = 1000
	for from := 0; from < len(messages); from += chunk {
		part := messages[from:min(from+chunk, len(messages))]
		records := make([]*kgo.Record, len(part))
		for i := range part {
			records[i] = &kgo.Record{Value: part[i].payload, Partition: int32((from + i) % partitions)}
		}
		if err := b.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		for i, r := range records {
			b.sent[place{r.Partition, r.Offset}] = from + i
		}
	}
	return nil
}

func (b *kafka) held(ctx context.Context) (int, error) {
	held := 0
	for _, topic := range []string{b.names.Topic, b.names.Topic + "." + b.names.Name + ".retry"} {
		ends, err := b.ends(ctx, topic)
		if err != nil {
			return 0, err
		}
		positions, err := b.positions(ctx, topic, len(ends))
		if err != nil {
			return 0, err
		}
		for partition, end := range ends {
			held += int(end - max(positions[partition], 0)) // nothing is ever deleted, so a log begins at 0
		}
	}
	return held, nil
}

// ends is where each partition ends; none where there is no such topic.
func (b *kafka) ends(ctx context.Context, topic string) (map[int32]int64, error) {
	about := kmsg.NewPtrMetadataRequest()
	wanted := kmsg.NewMetadataRequestTopic()
	wanted.Topic = &topic
	about.Topics = append(about.Topics, wanted)
	metadata, err := about.RequestWith(ctx, b.client)
	if err != nil {
		return nil, err
	}
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	for _, t := range metadata.Topics {
		if t.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			return nil, nil
		}
		for _, p := range t.Partitions {
			one := kmsg.NewListOffsetsRequestTopicPartition()
			one.Partition, one.Timestamp = p.Partition, -1
			asked.Partitions = append(asked.Partitions, one)
		}
	}
	request.Topics = append(request.Topics, asked)
	answer, err := request.RequestWith(ctx, b.client)
	if err != nil {
		return nil, err
	}
	ends := map[int32]int64{}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("end of %s/%d: %w", topic, p.Partition, err)
			}
			ends[p.Partition] = p.Offset
		}
	}
	return ends, nil
}

// positions is where the group stands, -1 where it has no position yet.
func (b *kafka) positions(ctx context.Context, topic string, count int) (map[int32]int64, error) {
	positions := map[int32]int64{}
	if count == 0 {
		return positions, nil
	}
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Group = b.names.Name
	asked := kmsg.NewOffsetFetchRequestTopic()
	asked.Topic = topic
	for partition := range int32(count) {
		asked.Partitions = append(asked.Partitions, partition)
	}
	request.Topics = append(request.Topics, asked)
	answer, err := request.RequestWith(ctx, b.client)
	if err != nil {
		return nil, err
	}
	if answer.ErrorCode == kerr.GroupIDNotFound.Code {
		return positions, nil // the consumer has not been there yet
	}
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return nil, fmt.Errorf("positions of %s: %w", b.names.Name, err)
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("position of %s in %s/%d: %w", b.names.Name, topic, p.Partition, err)
			}
			positions[p.Partition] = p.Offset
		}
	}
	return positions, nil
}

func (b *kafka) letters(ctx context.Context) ([]letter, error) {
	topic := b.names.Topic + "." + b.names.Name + ".dlq"
	ends, err := b.ends(ctx, topic)
	if err != nil {
		return nil, err
	}
	left := 0
	for _, end := range ends {
		left += int(end)
	}
	if left == 0 {
		return nil, nil
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.seeds...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var all []letter
	for len(all) < left {
		fetched := reader.PollFetches(ctx)
		if err := errors.Join(fetched.Err(), ctx.Err()); err != nil {
			return nil, fmt.Errorf("read the letters: %w", err)
		}
		fetched.EachRecord(func(r *kgo.Record) { all = append(all, b.letter(r)) })
	}
	return all, nil
}

func (b *kafka) letter(r *kgo.Record) letter {
	l := letter{Index: -1, Headers: map[string]string{}, Payload: string(r.Value)}
	for _, h := range r.Headers {
		l.Headers[h.Key] = string(h.Value)
	}
	l.ID, l.Reason = l.Headers["dl-id"], l.Headers["dl-reason"]
	partition, noPartition := strconv.ParseInt(l.Headers["dl-source-partition"], 10, 32)
	offset, noOffset := strconv.ParseInt(l.Headers["dl-source-offset"], 10, 64)
	if noPartition == nil && noOffset == nil && l.Headers["dl-source-topic"] == b.names.Topic {
		if index, sent := b.sent[place{int32(partition), offset}]; sent {
			l.Index = index
		}
	}
	return l
}

// close removes what was made in a cluster of somebody else's.
func (b *kafka) close() {
	if b.client != nil && b.cluster == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		request := kmsg.NewPtrDeleteTopicsRequest()
		request.TimeoutMillis = 10_000
		for _, suffix := range []string{"", "." + b.names.Name + ".dlq", "." + b.names.Name + ".retry"} {
			topic := kmsg.NewDeleteTopicsRequestTopic()
			name := b.names.Topic + suffix
			topic.Topic = &name
			request.Topics = append(request.Topics, topic)
			request.TopicNames = append(request.TopicNames, name)
		}
		_, _ = request.RequestWith(ctx, b.client) // what cannot be removed is named after the quickstart
		groups := kmsg.NewPtrDeleteGroupsRequest()
		groups.Groups = []string{b.names.Name}
		_, _ = groups.RequestWith(ctx, b.client)
	}
	if b.client != nil {
		b.client.Close()
	}
	if b.cluster != nil {
		b.cluster.Close()
	}
}

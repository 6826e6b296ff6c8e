package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers/kafkabroker"
)

// partitions of a topic that is made for trying it out.
const partitions = 4

// makeTopic makes the topic where it is missing, as whoever owns the orders does
// elsewhere: a consumer makes only what is its own.
func makeTopic(ctx context.Context, at kafkabroker.Config, topic string) error {
	transport := &kafka.Transport{TLS: at.TLS, SASL: at.SASL, ClientID: at.ClientID}
	defer transport.CloseIdleConnections()
	client := kafka.Client{Addr: kafka.TCP(at.Brokers...), Transport: transport}
	made, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: -1}}, // as many as the cluster says
	})
	if err == nil {
		err = made.Errors[topic]
	}
	if err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
		return fmt.Errorf("make topic %s: %w", topic, err)
	}
	return nil
}

//go:build servers

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestARunOnARealKafkaKeepsEveryPromiseAndLeavesNoTopic(t *testing.T) {
	addresses := os.Getenv("KAFKA_BROKERS")
	if addresses == "" {
		t.Fatal("KAFKA_BROKERS is not set: make test starts a Kafka and sets it")
	}
	keepsEveryPromise(t, "--kafka", addresses)

	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(addresses, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	metadata, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range metadata.Topics {
		if strings.HasPrefix(*topic.Topic, "onceward-quickstart-") {
			t.Errorf("topic %s is left behind", *topic.Topic)
		}
	}
}

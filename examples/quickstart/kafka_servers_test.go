//go:build servers

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// realKafka is the addresses of the cluster that the tests run on.
func realKafka(t *testing.T) string {
	t.Helper()
	addresses := os.Getenv("KAFKA_BROKERS")
	if addresses == "" {
		t.Fatal("KAFKA_BROKERS is not set: make test starts a Kafka and sets it")
	}
	return addresses
}

func TestARunOnARealKafkaKeepsEveryPromiseAndLeavesNoTopic(t *testing.T) {
	addresses := realKafka(t)
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

func TestSoakManySeedsOnARealKafkaKeepEveryPromise(t *testing.T) { soak(t, "--kafka", realKafka(t)) }

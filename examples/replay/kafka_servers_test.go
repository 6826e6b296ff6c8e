//go:build servers

package main

import (
	"os"
	"testing"
)

func TestAnIncidentOnARealKafkaIsBroughtToItsEnd(t *testing.T) {
	addresses := os.Getenv("KAFKA_BROKERS")
	if addresses == "" {
		t.Fatal("KAFKA_BROKERS is not set: make test starts a Kafka and sets it")
	}
	proves(t, 500, "--kafka", addresses, "--kills", "5", "--json")
}

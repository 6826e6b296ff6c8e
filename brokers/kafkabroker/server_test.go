//go:build servers

package kafkabroker_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers/brokertest"
)

// server is the address list of the real cluster that tests run against.
func server(t testing.TB) []string {
	t.Helper()
	addrs := os.Getenv("KAFKA_BROKERS")
	if addrs == "" {
		t.Fatal("KAFKA_BROKERS is not set: run testdata/servers/kafka start, or make test")
	}
	return strings.Split(addrs, ",")
}

func TestConformanceOnAServer(t *testing.T) {
	brokertest.Run(t, harness(t, server(t), 2*time.Second))
}

func TestScenariosOnAServer(t *testing.T) {
	for name, f := range scenarios {
		t.Run(name, func(t *testing.T) { f(t, newOther(t, server(t))) })
	}
}

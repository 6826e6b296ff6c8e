//go:build servers

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/examples/internal/programtest"
	"github.com/onceward/onceward/examples/internal/service"
)

func TestCredentialsOverTLSAreSentAndWrongOnesAreSaid(t *testing.T) {
	addresses, ca, user, password := os.Getenv("KAFKA_SASL_BROKERS"), os.Getenv("KAFKA_CA"), os.Getenv("KAFKA_USER"), os.Getenv("KAFKA_PASSWORD")
	if addresses == "" || ca == "" || user == "" || password == "" {
		t.Fatal("KAFKA_SASL_BROKERS, KAFKA_CA, KAFKA_USER and KAFKA_PASSWORD are not set: make test starts a Kafka and sets them")
	}
	secret := func(text string) string {
		path := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := func(mechanism, file string) []string {
		return []string{"produce", "--brokers", addresses, "--topic", "no-such-topic", "--ca", ca, "--sasl", mechanism, "--sasl-user", user, "--sasl-password-file", file}
	}
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		// It gets as far as hearing that the topic does not exist.
		p := programtest.Start(t, nil, args(mechanism, secret(password))...)
		p.EndsWith(service.Failed, 30*time.Second)
		if log := p.Stderr.String(); !strings.Contains(log, "kafka-topics --create") {
			t.Errorf("%s: %s", mechanism, log)
		}
		p = programtest.Start(t, nil, args(mechanism, secret("wr0ng"))...)
		p.EndsWith(service.Failed, 30*time.Second)
		if log := p.Stderr.String(); strings.Contains(log, "kafka-topics --create") || strings.Contains(log, "wr0ng") {
			t.Errorf("%s with a wrong password: %s", mechanism, log)
		}
	}
}

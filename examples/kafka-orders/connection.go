package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/onceward/onceward/brokers/kafkabroker"
)

// connection is how to reach Kafka; both commands have it.
type connection struct {
	brokers   string
	topic     string
	tls       bool
	ca        string
	mechanism string
	user      string
	password  string // a file: a flag would show in the list of processes
	create    bool
	instance  string
}

func (c *connection) flags(f *flag.FlagSet) {
	f.StringVar(&c.brokers, "brokers", "127.0.0.1:9092", "`addresses` of some brokers, separated by commas")
	f.StringVar(&c.topic, "topic", "orders", "`name` of the topic")
	f.BoolVar(&c.tls, "tls", false, "connect with TLS")
	f.StringVar(&c.ca, "ca", "", "`file` with the certificates that the brokers' are signed with; implies --tls")
	f.StringVar(&c.mechanism, "sasl", "", "authenticate by `mechanism` plain, scram-sha-256 or scram-sha-512")
	f.StringVar(&c.user, "sasl-user", "", "`name` of the user")
	f.StringVar(&c.password, "sasl-password-file", "", "`file` with the password")
}

func (c *connection) config() (kafkabroker.Config, error) {
	config := kafkabroker.Config{
		Brokers: strings.Split(c.brokers, ","), ClientID: "kafka-orders", Create: c.create, InstanceID: c.instance,
	}
	if c.tls || c.ca != "" {
		config.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.ca != "" {
		text, err := os.ReadFile(c.ca)
		if err != nil {
			return config, err
		}
		config.TLS.RootCAs = x509.NewCertPool()
		if !config.TLS.RootCAs.AppendCertsFromPEM(text) {
			return config, fmt.Errorf("%s has no certificate in PEM form", c.ca)
		}
	}
	var err error
	config.SASL, err = c.sasl()
	return config, err
}

func (c *connection) sasl() (sasl.Mechanism, error) {
	if c.mechanism == "" {
		return nil, nil //nolint:nilnil // no mechanism is a valid answer
	}
	text, err := os.ReadFile(c.password)
	if err != nil {
		return nil, fmt.Errorf("--sasl-password-file: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	switch strings.ToLower(c.mechanism) {
	case "plain":
		return plain.Mechanism{Username: c.user, Password: password}, nil
	case "scram-sha-256":
		return scram.Mechanism(scram.SHA256, c.user, password)
	case "scram-sha-512":
		return scram.Mechanism(scram.SHA512, c.user, password)
	}
	return nil, errors.New("--sasl must be plain, scram-sha-256 or scram-sha-512")
}

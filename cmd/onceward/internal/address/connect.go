package address

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/brokers/natsbroker"
)

// Broker is what a connection offers: all that a queue of letters needs.
type Broker interface {
	brokers.Broker
	brokers.Browser
}

// Connect connects. It blocks until it has, or ctx ends; name is what the
// servers see of this program.
//
// Errors: a file that cannot be read; an option that cannot be; those of the
// adapters' Connect.
func (a *Address) Connect(ctx context.Context, name string) (Broker, error) {
	var b brokers.Broker
	var err error
	if a.Scheme == "kafka" {
		b, err = a.kafka(ctx, name)
	} else {
		b, err = a.nats(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	browser, ok := b.(Broker)
	if !ok {
		return nil, errors.Join(errors.New("this broker cannot be browsed"), b.Close())
	}
	return browser, nil
}

func (a *Address) kafka(ctx context.Context, name string) (brokers.Broker, error) {
	config := kafkabroker.Config{Brokers: a.Hosts, ClientID: name}
	var err error
	if config.TLS, err = a.tls(); err != nil {
		return nil, err
	}
	if config.SASL, err = a.sasl(); err != nil {
		return nil, err
	}
	return kafkabroker.Connect(ctx, config)
}

func (a *Address) sasl() (sasl.Mechanism, error) {
	user, password, err := a.login()
	if err != nil {
		return nil, err
	}
	mechanism := strings.ToLower(a.options.Get("sasl"))
	if mechanism == "" && user == "" {
		return nil, nil //nolint:nilnil // no mechanism is a valid answer
	}
	switch mechanism {
	case "", "plain":
		return plain.Mechanism{Username: user, Password: password}, nil
	case "scram-sha-256":
		return scram.Mechanism(scram.SHA256, user, password)
	case "scram-sha-512":
		return scram.Mechanism(scram.SHA512, user, password)
	}
	return nil, errors.New("option sasl of the address must be plain, scram-sha-256 or scram-sha-512")
}

func (a *Address) tls() (*tls.Config, error) {
	o := a.options
	switch o.Get("tls") {
	case "", "true", "false":
	default:
		return nil, errors.New("option tls of the address must be true or false")
	}
	if o.Get("tls") != "true" && o.Get("ca") == "" && o.Get("cert") == "" {
		return nil, nil //nolint:nilnil // no TLS is a valid answer
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := o.Get("ca"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM form", file)
		}
	}
	if cert, key := o.Get("cert"), o.Get("key"); cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("certificate of this client: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (a *Address) nats(ctx context.Context, name string) (brokers.Broker, error) {
	user, password, err := a.login()
	if err != nil {
		return nil, err
	}
	o := []nats.Option{nats.Name(name)}
	if user != "" || password != "" {
		o = append(o, nats.UserInfo(user, password))
	}
	if file := a.options.Get("creds"); file != "" {
		o = append(o, nats.UserCredentials(file))
	}
	if file := a.options.Get("nkey"); file != "" {
		option, err := nats.NkeyOptionFromSeed(file)
		if err != nil {
			return nil, fmt.Errorf("option nkey of the address: %w", err)
		}
		o = append(o, option)
	}
	if file := a.options.Get("token-file"); file != "" {
		token, err := secret(file)
		if err != nil {
			return nil, err
		}
		o = append(o, nats.Token(token))
	}
	config, err := a.tls()
	if err != nil {
		return nil, err
	}
	if config != nil {
		o = append(o, nats.Secure(config))
	}
	return natsbroker.Connect(ctx, natsbroker.Config{URL: "nats://" + strings.Join(a.Hosts, ",nats://"), Options: o})
}

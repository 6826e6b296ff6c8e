//go:build servers

package kafkabroker_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/brokertest"
	"github.com/onceward/onceward/brokers/kafkabroker"
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

func TestTLSAndSASLOnAServer(t *testing.T) {
	addrs, ca := os.Getenv("KAFKA_SASL_BROKERS"), os.Getenv("KAFKA_CA")
	if addrs == "" {
		t.Fatal("KAFKA_SASL_BROKERS is not set: start the server with --sasl")
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	trusted := &tls.Config{RootCAs: x509.NewCertPool()}
	trusted.RootCAs.AppendCertsFromPEM(pem)
	_, stranger := authority(t)
	user, password := os.Getenv("KAFKA_USER"), os.Getenv("KAFKA_PASSWORD")
	sha512, err := scram.Mechanism(scram.SHA512, user, password)
	if err != nil {
		t.Fatal(err)
	}
	o := newOther(t, server(t))
	for name, c := range map[string]struct {
		addrs string
		tls   *tls.Config
		sasl  sasl.Mechanism
		want  string
	}{
		"PLAIN":              {addrs, trusted, plain.Mechanism{Username: user, Password: password}, ""},
		"SCRAM-SHA-256":      {addrs, trusted, scramOf(t, user, password), ""},
		"SCRAM-SHA-512":      {addrs, trusted, sha512, ""},
		"wrong password":     {addrs, trusted, plain.Mechanism{Username: user, Password: "wr0ng"}, "SASL"},
		"wrong SCRAM":        {addrs, trusted, scramOf(t, user, "wr0ng"), "SASL"},
		"authority":          {addrs, &tls.Config{RootCAs: stranger}, plain.Mechanism{Username: user, Password: password}, "certificate"},
		"plain text to TLS":  {addrs, nil, nil, "TLS"},
		"no SASL where used": {addrs, trusted, nil, "SASL"},
		"TLS to plain text":  {strings.Join(server(t), ","), trusted, nil, "TLS"},
		"SASL without need":  {strings.Join(server(t), ","), nil, plain.Mechanism{Username: user, Password: password}, "SASL"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := quick(strings.Split(c.addrs, ",")...)
			cfg.TLS, cfg.SASL = c.tls, c.sasl
			began := time.Now()
			b, err := kafkabroker.Connect(t.Context(), cfg)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				topic := o.newTopic(t, 2)
				r := open(t, b, on(topic))
				publish(t, b, topic, 10)
				if err := r.Ack(r.take(10)); err != nil {
					t.Error(err)
				}
				r.close()
				return
			}
			var fault *brokers.StartError
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v", err)
			}
			if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("the error has a secret: %v", err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestScenariosOnAServer(t *testing.T) {
	for name, f := range scenarios {
		t.Run(name, func(t *testing.T) { f(t, newOther(t, server(t))) })
	}
}

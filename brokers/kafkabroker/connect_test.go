package kafkabroker_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
)

// authority makes a certificate for 127.0.0.1 and the pool that trusts it.
func authority(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func scramOf(t *testing.T, user, password string) sasl.Mechanism {
	t.Helper()
	m, err := scram.Mechanism(scram.SHA256, user, password)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTLSAndSASL(t *testing.T) {
	t.Parallel()
	cert, pool := authority(t)
	_, stranger := authority(t)
	secure := fake(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}), kfake.EnableSASL(), kfake.Superuser("PLAIN", "alice", "s3cret-p"), kfake.Superuser("SCRAM-SHA-256", "alice", "s3cret-s"))
	bare := fake(t)
	authenticated := fake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "alice", "s3cret-p"))
	trusted := &tls.Config{RootCAs: pool}
	for name, c := range map[string]struct {
		to   *kfake.Cluster
		tls  *tls.Config
		sasl sasl.Mechanism
		want string // of the error; empty when it must work
	}{
		"PLAIN over TLS":     {secure, trusted, plain.Mechanism{Username: "alice", Password: "s3cret-p"}, ""},
		"SCRAM over TLS":     {secure, trusted, scramOf(t, "alice", "s3cret-s"), ""},
		"PLAIN":              {authenticated, nil, plain.Mechanism{Username: "alice", Password: "s3cret-p"}, ""},
		"wrong password":     {secure, trusted, plain.Mechanism{Username: "alice", Password: "wr0ng"}, "SASL"},
		"wrong SCRAM":        {secure, trusted, scramOf(t, "alice", "wr0ng"), "SASL"},
		"mechanism":          {authenticated, nil, scramOf(t, "alice", "wr0ng"), "SASL"},
		"authority":          {secure, &tls.Config{RootCAs: stranger}, plain.Mechanism{Username: "alice", Password: "s3cret-p"}, "certificate"},
		"plain text to TLS":  {secure, nil, nil, "TLS"},
		"TLS to plain text":  {bare, trusted, nil, "TLS"},
		"no SASL where used": {authenticated, nil, nil, "SASL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quick(c.to.ListenAddrs()...)
			cfg.TLS, cfg.SASL = c.tls, c.sasl
			began := time.Now()
			b, err := kafkabroker.Connect(t.Context(), cfg)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				o := on("orders")
				r := open(t, b, o)
				publish(t, b, "orders", 10)
				r.take(10)
				r.close()
				return
			}
			var fault *brokers.StartError
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v", err)
			}
			for _, secret := range []string{"s3cret", "wr0ng"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error has a secret: %v", err)
				}
			}
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestAPeerThatIsNotKafkaIsAStartError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.CopyN(io.Discard, c, 4)
				io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
			}()
		}
	}()
	began := time.Now()
	var fault *brokers.StartError
	if _, err := kafkabroker.Connect(t.Context(), quick(l.Addr().String())); !errors.As(err, &fault) || !strings.Contains(err.Error(), "HTTP") {
		t.Fatalf("error %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestNobodyThereIsATransientErrorWithinItsBound(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := kafkabroker.Connect(ctx, quick("127.0.0.1:1"))
	if err == nil || errors.As(err, new(*brokers.StartError)) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Fatalf("error %v", err)
	}
}

func TestAWrongConfigurationReportsAllItsFaults(t *testing.T) {
	_, err := kafkabroker.Connect(t.Context(), kafkabroker.Config{Brokers: []string{"nohost"}, SessionTimeout: time.Millisecond, OnGap: 9})
	if _, ok := errors.AsType[*brokers.StartError](err); !ok {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"nohost", "SessionTimeout", "OnGap"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestAWrongSpecReportsAllItsFaults(t *testing.T) {
	b := connect(t, quick(fake(t).ListenAddrs()...))
	_, err := b.Open(t.Context(), brokers.Spec{Consumer: "a b", Topics: []string{"x", "x", "no/name"}})
	if _, ok := errors.AsType[*brokers.StartError](err); !ok {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"Consumer", "twice", "no/name", "StartFrom"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestAClusterThatIsTooOldIsAStartError(t *testing.T) {
	for version, ok := range map[*kversion.Versions]bool{kversion.V2_2_0(): false, kversion.V2_4_0(): true} {
		c := fake(t, kfake.MaxVersions(version))
		b, err := kafkabroker.Connect(t.Context(), quick(c.ListenAddrs()...))
		var fault *brokers.StartError
		if ok != (err == nil) || !ok && (!errors.As(err, &fault) || !strings.Contains(err.Error(), "2.4")) {
			t.Fatalf("%v: error %v", version, err)
		}
		if !ok {
			continue
		}
		defer b.Close()
		// Topic ids came later: topics are read by name.
		publish(t, b, "orders", 20)
		r := open(t, b, spec())
		if d := r.take(20)[0]; d.Lane.Source != "orders" {
			t.Errorf("source %q", d.Lane.Source)
		}
		r.close()
	}
}

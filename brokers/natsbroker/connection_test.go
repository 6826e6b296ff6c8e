package natsbroker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/natstest"
)

const secret = "s3cr3t-pa55word"

// certificate is self-signed, for 127.0.0.1.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// listen answers every connection with say.
func listen(t *testing.T, say string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			_, _ = c.Write([]byte(say))
		}
	}()
	return l.Addr().String()
}

func TestFaultsOfConnectingAreNamedInTime(t *testing.T) {
	withUser := natstest.Serve(t, func(o *server.Options) { o.Username, o.Password = "alice", secret })
	noStream := natstest.Serve(t, func(o *server.Options) { o.JetStream = false })
	plain := natstest.Serve(t)
	secure := natstest.Serve(t, func(o *server.Options) {
		o.TLS, o.TLSConfig = true, &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	})
	noAccount := natstest.Serve(t, func(o *server.Options) {
		bob := server.NewAccount("bob")
		o.Accounts = []*server.Account{bob}
		o.Users = []*server.User{{Username: "bob", Password: secret, Account: bob}}
	})
	as := func(s *server.Server, user string) string {
		return strings.Replace(s.ClientURL(), "nats://", "nats://"+user+"@", 1)
	}
	quick := []nats.Option{nats.Timeout(300 * time.Millisecond)} // the default is 5 s
	for name, c := range map[string]struct {
		config   Config
		wrong    string // of the StartError; empty for an error that may heal
		mentions string
	}{
		"wrong password":         {Config{URL: as(withUser, "alice:"+secret+"x")}, "refuses these credentials", withUser.Addr().String()},
		"no password":            {Config{URL: withUser.ClientURL()}, "refuses these credentials", ""},
		"no JetStream":           {Config{URL: noStream.ClientURL()}, "without JetStream", "-js"},
		"account without":        {Config{URL: as(noAccount, "bob:"+secret)}, "JetStream", ""},
		"unknown authority":      {Config{URL: secure.ClientURL()}, "certificates do not fit", ""},
		"TLS asked of plain":     {Config{URL: plain.ClientURL(), Options: []nats.Option{nats.Secure()}}, "no TLS", ""},
		"nobody there":           {Config{URL: "nats://alice:" + secret + "@127.0.0.1:1"}, "", "127.0.0.1:1"},
		"HTTP server":            {Config{URL: listen(t, "HTTP/1.1 400 Bad Request\r\n\r\n")}, "no NATS server", ""},
		"garbage":                {Config{URL: listen(t, strings.Repeat("\xff\x00", 5000)), Options: quick}, "", ""},
		"silence":                {Config{URL: listen(t, ""), Options: quick}, "", ""},
		"URL without sense":      {Config{URL: "nats://alice:" + secret + "@[::bad"}, "cannot be parsed", ""},
		"empty URL":              {Config{}, "URL is empty", ""},
		"missing credentials":    {Config{URL: plain.ClientURL(), Options: []nats.Option{nats.RootCAs("/does/not/exist.pem")}}, "option cannot be used", ""},
		"AckWait out of range":   {Config{URL: plain.ClientURL(), AckWait: time.Millisecond}, "AckWait", ""},
		"Prefetch out of range":  {Config{URL: plain.ClientURL(), Prefetch: -1}, "Prefetch", ""},
		"domain that is nowhere": {Config{URL: plain.ClientURL(), Domain: "mars"}, "without JetStream", "Domain"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			b, err := Connect(t.Context(), c.config)
			if err == nil {
				b.Close()
				t.Fatal("connected")
			}
			var fault *brokers.StartError
			if got := errors.As(err, &fault); got != (c.wrong != "") || !strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), c.mentions) {
				t.Errorf("start error %v: %v", got, err)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the password is in: %v", err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestConnectEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := Connect(ctx, Config{URL: listen(t, "")}); err == nil || time.Since(began) > 2*time.Second {
		t.Fatalf("%v after %v", err, time.Since(began))
	}
}

// A user who may do only what a consumer needs is enough, and one who may less
// is told so.
func TestPermissionsAreReported(t *testing.T) {
	s := natstest.Serve(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: secret},
			{Username: "reader", Password: secret, Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{
					"$JS.API.STREAM.INFO.>", "$JS.API.CONSUMER.INFO.>", "$JS.API.CONSUMER.MSG.NEXT.>", "$JS.ACK.>",
					"$KV.onceward.>", "$JS.API.DIRECT.GET.KV_onceward.>", "ORDERS_DLQ.billing", "ORDERS_RETRY.billing",
				}},
			}},
			{Username: "nobody", Password: secret, Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.>"}}}},
		}
	})
	as := func(user string) string {
		return strings.Replace(s.ClientURL(), "nats://", "nats://"+user+":"+secret+"@", 1)
	}
	admin := connect(t, Config{URL: as("admin"), Create: true})
	openSource(t, admin, specOf("ORDERS"))
	reader := connect(t, Config{URL: as("reader")})
	source := openSource(t, reader, specOf("ORDERS"))
	if err := source.Mark(t.Context(), "mine"); err != nil {
		t.Errorf("mark: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	began := time.Now()
	errs := reader.Publish(ctx, []brokers.Outgoing{
		{Topic: "ORDERS_DLQ.billing", Value: []byte("x"), ID: "1"}, {Topic: "ORDERS_DLQ.other", Value: []byte("x"), ID: "2"},
	})
	if errs[0] != nil || !errors.Is(errs[1], brokers.ErrUnauthorized) || time.Since(began) > 3*time.Second {
		t.Errorf("published: %v after %v", errs, time.Since(began))
	}
	nobody := connect(t, Config{URL: as("nobody")})
	var fault *brokers.StartError
	if _, err := nobody.Open(t.Context(), specOf("ORDERS")); !errors.As(err, &fault) || strings.Contains(err.Error(), secret) {
		t.Errorf("open: %v", err)
	}
}

func TestCallbacksOfTheUserAreCalledToo(t *testing.T) {
	s := natstest.Serve(t)
	g := newGate()
	gone, back := make(chan error, 1), make(chan bool, 1)
	connect(t, Config{URL: s.ClientURL(), Options: []nats.Option{
		nats.SetCustomDialer(g), nats.ReconnectWait(10 * time.Millisecond),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { gone <- err }),
		nats.ReconnectHandler(func(*nats.Conn) { back <- true }),
	}})
	g.mu.Lock()
	g.cut()
	g.mu.Unlock()
	<-gone
	<-back
}

package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/wire"
)

// peerThat answers every connection with f.
func peerThat(t *testing.T, f func(net.Conn)) string {
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
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
	return l.Addr().String()
}

func clusterAt(t *testing.T, addrs ...string) *Cluster {
	c := New(Config{Seeds: addrs, ClientID: "t", MaxData: 1 << 20, Dial: new(net.Dialer).DialContext})
	t.Cleanup(c.Close)
	return c
}

// versions is a good answer to ApiVersions, of a broker with metadata 8 only.
func versions() []byte {
	res := kmsg.NewPtrApiVersionsResponse()
	for key, highest := range map[protocol.ApiKey]int16{protocol.Metadata: 8, protocol.Fetch: 11, protocol.ApiVersions: 2, protocol.FindCoordinator: 2} {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = int16(key), highest
		res.ApiKeys = append(res.ApiKeys, k)
	}
	return frame(answer(res, 0))
}

func frame(body []byte) []byte { return append(wire.AppendInt32(nil, int32(len(body))), body...) }

// request reads one request.
func request(c net.Conn) error {
	_, err := wire.ReadFrame(c, nil, 1<<20)
	return err
}

func TestAPeerThatIsNotKafkaIsNamedFastAndCostsLittle(t *testing.T) {
	huge := strings.Repeat("\x7f", 1<<20)
	for name, c := range map[string]struct {
		says string
		want string
	}{
		"http":           {"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"},
		"nats":           {"INFO {\"server_id\":\"x\"}\r\n", "NATS"},
		"ssh":            {"SSH-2.0-OpenSSH\r\n", "SSH"},
		"tls":            {"\x15\x03\x03\x00\x02\x02\x28", "TLS"},
		"garbage length": {huge, "begins with"},
		"garbage count":  {"\x00\x00\x00\x0e\x00\x00\x00\x01\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00", "malformed"},
		"nothing":        {"", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := peerThat(t, func(conn net.Conn) {
				if request(conn) == nil {
					io.WriteString(conn, c.says)
				}
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, err := clusterAt(t, addr).Metadata(t.Context(), nil)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), addr) {
				t.Fatalf("error %v", err)
			}
			if name != "nothing" && !Terminal(err) {
				t.Errorf("is not terminal: %v", err)
			}
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("it took %v", took)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
				t.Errorf("%d MiB allocated", used>>20)
			}
		})
	}
}

// After a good beginning the answers to everything else are garbage.
func TestGarbageLengthsInAnyAnswerAreAnErrorAndCostLittle(t *testing.T) {
	for name, says := range map[string][]byte{
		"size":           {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1},
		"negative size":  {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1},
		"array":          frame([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}),
		"negative array": frame([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0}),
		"ends early":     frame([]byte{0, 0, 0, 1}),
	} {
		t.Run(name, func(t *testing.T) {
			addr := peerThat(t, func(c net.Conn) {
				if request(c) != nil {
					return
				}
				c.Write(versions())
				for request(c) == nil {
					c.Write(says)
				}
			})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := clusterAt(t, addr).Metadata(t.Context(), nil)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatal("no error")
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
				t.Errorf("%d MiB allocated", used>>20)
			}
		})
	}
}

func TestASilentAddressCostsASecond(t *testing.T) {
	good := func(c net.Conn) {
		if request(c) != nil {
			return
		}
		c.Write(versions())
		for request(c) == nil {
			res := kmsg.NewPtrMetadataResponse()
			res.ControllerID = 5
			c.Write(frame(answer(res, 8)))
		}
	}
	silent := func(c net.Conn) { io.Copy(io.Discard, c) }
	dead := peerThat(t, silent)
	for _, order := range [][]string{{peerThat(t, silent), peerThat(t, good)}, {"127.0.0.1:1", peerThat(t, good)}, {dead, "127.0.0.1:1", peerThat(t, good)}} {
		c := clusterAt(t, order...)
		began := time.Now()
		v, err := c.Metadata(t.Context(), nil)
		if err != nil || v.Controller != 5 {
			t.Fatalf("%+v, %v", v, err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("first answer after %v", took)
		}
		began = time.Now()
		if _, err := c.Metadata(t.Context(), nil); err != nil || time.Since(began) > time.Second/2 {
			t.Errorf("second answer after %v: %v", time.Since(began), err)
		}
	}
}

func TestACallEndsWithItsContextAndItsBound(t *testing.T) {
	c := clusterAt(t, peerThat(t, func(c net.Conn) { io.Copy(io.Discard, c) }))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := c.Metadata(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestNothingIsSentAfterClose(t *testing.T) {
	c := clusterAt(t, peerThat(t, func(c net.Conn) { t.Error("a connection after Close") }))
	c.Close()
	if _, err := c.Metadata(t.Context(), nil); err == nil {
		t.Error("no error")
	}
}

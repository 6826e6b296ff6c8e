package memnet_test

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/memnet"
)

func connect(t *testing.T, n *memnet.Network) (client, server net.Conn) {
	t.Helper()
	l, err := n.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	client, err = n.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return client, server
}

func TestBytesArriveInOrderAndThenTheEnd(t *testing.T) {
	client, server := connect(t, memnet.New())
	sent := make([]byte, 1<<20) // more than a buffer holds
	for i := range sent {
		sent[i] = byte(i * 7)
	}
	go func() {
		client.Write(sent)
		client.Close()
	}()
	got, err := io.ReadAll(server)
	if err != nil || string(got) != string(sent) {
		t.Fatalf("got %d bytes, %v", len(got), err)
	}
	if _, err := server.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("write to a closed end: %v", err)
	}
}

func TestFakeTimePassesWhileAReadAndAWriteAreBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connect(t, memnet.New())
		began := time.Now()
		server.SetReadDeadline(began.Add(time.Hour))
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Hour {
			t.Errorf("read: %v after %v", err, time.Since(began))
		}
		client.SetWriteDeadline(time.Now().Add(time.Hour))
		if n, err := client.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 {
			t.Errorf("write: %d, %v", n, err)
		}
		server.SetReadDeadline(time.Time{})
		if _, err := server.Read(make([]byte, 1)); err != nil {
			t.Errorf("after the deadline was taken back: %v", err)
		}
	})
}

func TestACutBreaksBothEnds(t *testing.T) {
	n := memnet.New()
	client, server := connect(t, n)
	n.Cut(server.LocalAddr().String())
	for _, c := range []net.Conn{client, server} {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v", err)
		}
	}
	if _, err := n.Dial("tcp", server.LocalAddr().String()); err != nil {
		t.Errorf("dial after a cut: %v", err)
	}
}

func TestNobodyListensMeansRefused(t *testing.T) {
	if _, err := memnet.New().Dial("tcp", "127.0.0.1:9"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
}

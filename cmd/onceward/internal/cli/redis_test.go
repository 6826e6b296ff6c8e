package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
)

// redisOf is a server that knows SCAN, in two pages, and refuses all else.
func redisOf(t *testing.T, keys ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c, keys)
		}
	}()
	return l.Addr().String()
}

func answer(c net.Conn, keys []string) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		words, err := command(in)
		if err != nil {
			return
		}
		if !strings.EqualFold(words[0], "scan") {
			fmt.Fprint(c, "-ERR unknown command\r\n")
			continue
		}
		half, cursor := keys[:len(keys)/2], "7"
		if words[1] == "7" {
			half, cursor = keys[len(keys)/2:], "0"
		}
		fmt.Fprintf(c, "*2\r\n$1\r\n%s\r\n*%d\r\n", cursor, len(half))
		for _, k := range half {
			fmt.Fprintf(c, "$%d\r\n%s\r\n", len(k), k)
		}
	}
}

// command reads an array of strings.
func command(in *bufio.Reader) ([]string, error) {
	count := func() (int, error) {
		head, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(head[1:]))
	}
	n, err := count()
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		size, err := count()
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		words[i] = string(text[:size])
	}
	return words, nil
}

func TestIdsAreImportedFromRedis(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-0", "fine"))
	r.quiet() // it takes no change before it has compared its store with the broker
	address := redisOf(t, "done:order:ord-1:v1", "done:order:ord-2:v1", "done:order:ord-1:v1")
	args := []string{"record", "import", "--pattern", "done:order:*:v1", "--scope", "order.create", "--reason", "cutover", "--yes", "--via", r.via}
	call(t, args, "--redis", "redis://"+address+"/0").want(t, cli.Done).says(t, "3 read: 2 imported, 1 had a record")
	call(t, args, "ONCEWARD_REDIS=redis://u:hunter2@"+address).want(t, cli.Failed) // it wants no password
	for _, wrong := range []string{"redis://u:hunter2@" + address + "/x", "http://u:hunter2@" + address} {
		if got := call(t, args, "--redis", wrong).want(t, cli.Usage); strings.Contains(got.stderr, "hunter2") {
			t.Errorf("the password is shown: %s", got.stderr)
		}
	}
	r.publish("created", order("ord-1", "fine"))
	r.publish("created", order("ord-3", "fine"))
	r.quiet()
	if n := r.ran.Load(); n != 2 {
		t.Errorf("handler ran %d times, want twice", n)
	}
}

package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

// failed are letters of operations that have failed for good: in the topic, and
// in the store with their records.
func failed(t *testing.T, b brokers.Broker, store dedup.Store, from, to int) {
	t.Helper()
	policy := &dedup.Policy{Failures: 10, Lone: 3, Window: 14 * 24 * time.Hour}
	var letters []brokers.Outgoing
	var claims, ends, notes []dedup.Op
	for i := from; i < to; i++ {
		key := dedup.Key{Consumer: "billing", Scope: "order.create", ID: fmt.Sprint("ord-", i)}
		claims = append(claims, dedup.Op{
			Kind: dedup.Claim, Key: key, Token: dedup.Token{1}, Policy: policy, Lease: time.Minute,
			Position: dedup.Position{Source: "orders@1", Offset: int64(i)}, Fingerprint: dedup.Fingerprint{Rule: 1, Sum: [32]byte{1}},
		})
	}
	apply := func(ops []dedup.Op) []dedup.Answer {
		answers, err := store.Apply(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		return answers
	}
	for i, a := range apply(claims) {
		key := claims[i].Key
		ends = append(ends, dedup.Op{
			Kind: dedup.End, Key: key, Token: dedup.Token{1}, Fence: a.Fence, Policy: policy, Outcome: dedup.Terminal, Reason: "terminal", Error: "no",
		})
		id := deadletter.ID(key, a.Opened)
		letters = append(letters, deadletter.Encode(deadletter.Letter{
			ID: id, Consumer: key.Consumer, Reason: deadletter.ReasonTerminal, Error: fmt.Sprintf("customer %d is not known", from+i),
			ErrorType: "*errors.errorString", Key: key, Run: 1, Fingerprint: claims[i].Fingerprint,
			Source: deadletter.Source{Topic: "orders", Offset: int64(from + i)}, BrokerKey: []byte(key.ID), Value: fmt.Appendf(nil, `{"order_id":%q}`, key.ID),
		}, "orders.billing.dlq"))
		notes = append(notes, dedup.Op{Kind: dedup.NoteLetter, Key: key, Letter: &dedup.LetterOp{
			Letter: dedup.Letter{ID: id, Reason: "terminal", Run: 1, Opened: a.Opened}, Settles: true,
		}})
	}
	apply(ends)
	apply(notes)
	if err := errors.Join(b.Publish(t.Context(), letters)...); err != nil {
		t.Fatal(err)
	}
}

var (
	anonymous = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)
	counted   = regexp.MustCompile(`"(?:count|letters)":(\d+)`)
)

// run runs the command as a process of its own. most is what it had of memory at
// most, in MB, but for the pages of the store's file, which the kernel maps and
// takes back as it likes.
func run(t *testing.T, command string, args ...string) (stdout, stderr string, most int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), command, args...)
	var out, told bytes.Buffer
	c.Stdout, c.Stderr = &out, &told
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v: %v\n%s", args, err, told.String())
			}
			return out.String(), told.String(), most >> 10
		case <-look.C:
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid)) // gone when it has just ended
			if m := anonymous.FindSubmatch(status); m != nil {
				kB, _ := strconv.Atoi(string(m[1]))
				most = max(most, kB)
			}
		}
	}
}

// A million with ONCEWARD_SOAK, a hundredth without. There is no running consumer
// whose memory would help.
func TestSoakAMillionLettersAreWorkedOffInLittleMemory(t *testing.T) {
	t.Parallel() // it mostly waits
	n := 10_000
	if os.Getenv("ONCEWARD_SOAK") != "" {
		n = 1_000_000
	}
	dir := t.TempDir()
	command := filepath.Join(dir, "onceward")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", command, "../..").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "orders", "orders.billing.dlq", "orders.billing.retry"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b, err := kafkabroker.Connect(t.Context(), kafkabroker.Config{Brokers: cluster.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	store, err := boltstore.Open(filepath.Join(dir, "billing.db"), boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += 5000 {
		failed(t, b, store, i, i+5000)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	where := []string{"--from", "kafka://" + cluster.ListenAddrs()[0] + "/orders.billing.dlq", "--store", "bolt:" + filepath.Join(dir, "billing.db"), "--json"}
	for _, args := range [][]string{{"dlq", "groups"}, {"dlq", "replay", "plan", "-o", filepath.Join(dir, "plan.jsonl")}} {
		stdout, stderr, most := run(t, command, append(args, where...)...)
		t.Logf("%s: %d MB", strings.Join(args[:2], " "), most)
		if m := counted.FindStringSubmatch(stdout); m == nil || m[1] != strconv.Itoa(n) || most > 300 || n > 10_000 && !strings.Contains(stderr, "letters") {
			t.Errorf("%v: %d MB, %s\n%s", args, most, stdout, stderr)
		}
	}
}

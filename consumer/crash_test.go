package consumer_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	bolt "go.etcd.io/bbolt"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
)

// steps are the places of pipeline.go at which a process can die.
var steps = func() (all []string) {
	for _, s := range []string{"claim", "handler", "retry copy", "complete", "letter", "note", "ack"} {
		all = append(all, "before "+s, "after "+s)
	}
	return all
}()

// crashRig is a nats-server process, consumer processes one after the other on
// one file, and what the parent knows: it is the witness.
type crashRig struct {
	t      *testing.T
	server *natsServer
	js     jetstream.JetStream
	file   string

	sent     map[string]string // what each id does
	runs     map[string]int
	fences   map[string]uint64 // the last one seen
	finished map[string]bool   // by the file, read while no process has it
	rising   int               // fences that were seen after another one of the key
}

func newCrashRig(t *testing.T) *crashRig {
	t.Helper()
	t.Parallel() // these tests mostly wait
	r := &crashRig{
		t: t, server: startServer(t), file: filepath.Join(t.TempDir(), "billing.db"),
		sent: map[string]string{}, runs: map[string]int{}, fences: map[string]uint64{}, finished: map[string]bool{},
	}
	nc, err := nats.Connect(r.server.url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if r.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	if _, err = r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{stream + ".>"}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// send publishes a message that does something, repeats times.
func (r *crashRig) send(do string, repeats int) (id string) {
	r.t.Helper()
	id = fmt.Sprint(do, "-", len(r.sent))
	r.sent[id] = do
	value, _ := json.Marshal(job{No: id, Do: do})
	if do == "garbage" {
		value = []byte("{" + id)
	}
	for range repeats {
		if _, err := r.js.Publish(r.t.Context(), stream+".new", value); err != nil {
			r.t.Fatal(err)
		}
	}
	return id
}

func (r *crashRig) config() childConfig {
	return childConfig{URL: r.server.url, File: r.file, LoneCrashes: 100, Workers: 8}
}

// see is the witness.
func (r *crashRig) see(words []string) {
	if len(words) < 3 || words[0] != "begin" {
		r.t.Errorf("a consumer says %q", words)
		return
	}
	id := words[1]
	fence, err := strconv.ParseUint(words[2], 10, 64)
	if err != nil {
		r.t.Errorf("a consumer says %q", words)
	}
	if r.finished[id] {
		r.t.Errorf("%s runs again although it was completed", id)
	}
	if last := r.fences[id]; last > 0 {
		r.rising++
		if fence <= last {
			r.t.Errorf("%s has fence %d after %d", id, fence, last)
		}
	}
	r.fences[id] = fence
	r.runs[id]++
}

// look reads from the file what is finished.
func (r *crashRig) look() {
	r.t.Helper()
	s, err := boltstore.Open(r.file, boltstore.Options{ReadOnly: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // read only
	for record, err := range s.Scan(context.Background(), durable) {
		if err != nil {
			r.t.Fatal(err)
		}
		if record.State == dedup.Succeeded || record.State == dedup.Failed || record.State == dedup.InDoubt {
			r.finished[record.Key.ID] = true
		}
	}
}

// unsettled is what the durables still hold.
func (r *crashRig) unsettled() int {
	n := unsettled(r.t, r.js)
	c, err := r.js.Consumer(r.t.Context(), stream+"_RETRY", durable)
	if n < 0 || err != nil {
		return -1
	}
	info := c.CachedInfo()
	return n + int(info.NumPending) + info.NumAckPending
}

// finish lets a process that is not killed do the rest, and stops it with
// SIGTERM.
func (r *crashRig) finish(within time.Duration) {
	r.t.Helper()
	p := start(r.t, "consumer", r.config())
	go func() {
		for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if r.unsettled() == 0 {
				break
			}
		}
		_ = p.cmd.Process.Signal(terminate)
	}()
	p.wait(r.see)
	if p.err != nil {
		r.t.Errorf("stopped with %v", p.err)
	}
	r.look()
	if n := r.unsettled(); n != 0 {
		r.t.Errorf("%d messages are not settled after %v", n, within)
	}
}

// check compares what was sent with the bookings and the letters.
func (r *crashRig) check(reasons map[string]string) {
	r.t.Helper()
	booked := r.bookings()
	letters := r.letters()
	lost, repeated := 0, 0
	for id, do := range r.sent {
		want, dead := reasons[do]
		n := booked[id]
		switch {
		case n > 1:
			repeated++
			r.t.Errorf("%s is booked %d times", id, n)
		case dead && n == 1, !dead && len(letters[id]) > 0:
			r.t.Errorf("%s is booked %d times and has letters %v", id, n, letters[id])
		case dead && (len(letters[id]) != 1 || letters[id][0] != want):
			lost++
			r.t.Errorf("%s has letters %v, want one: %s", id, letters[id], want)
		case !dead && n == 0:
			lost++
			r.t.Errorf("%s is lost: %d runs, finished: %v", id, r.runs[id], r.finished[id])
		}
	}
	for id := range booked {
		if r.sent[id] == "" {
			r.t.Errorf("%s was never sent", id)
		}
	}
	r.t.Logf("%d operations, lost %d, repeated %d; %d fences after another one", len(r.sent), lost, repeated, r.rising)
}

func (r *crashRig) bookings() map[string]int {
	r.t.Helper()
	db, err := bolt.Open(r.file, 0o600, &bolt.Options{ReadOnly: true, Timeout: 5 * time.Second})
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // read only
	booked := map[string]int{}
	if err := db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(effects)
		if b == nil {
			return nil
		}
		return b.ForEach(func(id, n []byte) error {
			booked[string(id)] = int(binary.BigEndian.Uint64(n))
			return nil
		})
	}); err != nil {
		r.t.Fatal(err)
	}
	return booked
}

// letters are the reasons of all incidents, by the id of the message.
func (r *crashRig) letters() map[string][]string {
	r.t.Helper()
	s, err := r.js.Stream(r.t.Context(), stream+"_DLQ")
	if err != nil {
		r.t.Fatal(err)
	}
	info := s.CachedInfo()
	found, seen := map[string][]string{}, map[string]bool{}
	for seq := max(info.State.FirstSeq, 1); seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(r.t.Context(), seq)
		if err != nil {
			r.t.Fatal(err)
		}
		var j job
		if json.Unmarshal(m.Data, &j) != nil {
			j.No = string(m.Data[1:]) // garbage bears its id behind the brace
		}
		if dl := m.Header.Get("dl-id"); !seen[dl] {
			seen[dl] = true
			found[j.No] = append(found[j.No], m.Header.Get("dl-reason"))
		}
	}
	return found
}

func TestSoakAKillAtAnyStepLosesNothingAndRepeatsNothingCompleted(t *testing.T) {
	r := newCrashRig(t)
	kinds := []string{"book", "flaky", "later", "refuse", "fail", "doubt", "garbage"}
	rnd := rand.New(rand.NewPCG(1, 1))
	began, kills := time.Now(), 0
	for _, step := range steps {
		for range full(30) {
			for _, do := range kinds {
				r.send(do, 1)
			}
			r.send("book", 2)
			c := r.config()
			c.Step, c.Nth = step, 1+rnd.IntN(2)
			p := start(t, "consumer", c)
			stuck := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Signal(terminate) })
			p.wait(r.see)
			if stuck.Stop(); !p.killed() {
				t.Fatalf("not killed %s, time %d: %v", step, c.Nth, p.err)
			}
			kills++
			r.look()
		}
	}
	t.Logf("%d kills, %.1f a second", kills, float64(kills)/time.Since(began).Seconds())
	r.finish(5 * time.Minute) // suspects run alone, two commits each
	r.check(map[string]string{
		"refuse": "terminal", "fail": "exhausted", "doubt": "in-doubt", "garbage": "decode",
	})
	if r.rising < kills/2 {
		t.Errorf("only %d fences were seen after another one of the key: the kills hit nothing", r.rising)
	}
}

func TestSoakAMessageThatKillsItsProcessIsFoundAmongItsNeighbours(t *testing.T) {
	r := newCrashRig(t)
	neighbours := full(500)
	for i := range neighbours {
		if i == neighbours/2 {
			r.send("exit", 1)
		}
		r.send("hold", 1)
	}
	c := r.config()
	c.Workers, c.LoneCrashes, c.Hold = 512, 3, 10*time.Second
	lives, most := 0, 0
	for {
		if lives++; lives > 10 {
			t.Fatal("still dying")
		}
		if lives > 2 {
			c.Hold = time.Millisecond // alone they would take the test's time
		}
		p := start(t, "consumer", c)
		settled := make(chan struct{})
		go func() {
			defer close(settled)
			for ; r.unsettled() != 0; time.Sleep(20 * time.Millisecond) {
				if p.cmd.Process.Signal(noSignal) != nil {
					return // it has died
				}
			}
			_ = p.cmd.Process.Signal(terminate)
		}()
		begun := 0
		p.wait(func(words []string) { begun++; r.see(words) })
		<-settled
		most = max(most, begun)
		r.look()
		if p.err == nil {
			break
		}
	}
	if most <= neighbours {
		t.Errorf("at most %d ran beside each other, want all %d", most, neighbours+1)
	}
	r.check(map[string]string{"exit": "crash-loop"})
	t.Logf("%d lives", lives)
}

func TestSoakAServerThatIsKilledInTheMiddleLosesNothing(t *testing.T) {
	r := newCrashRig(t)
	kinds := []string{"hold", "book", "flaky", "later", "refuse", "fail", "doubt", "garbage"}
	for range 4 * full(50) {
		for _, do := range kinds {
			r.send(do, 1)
		}
	}
	c := r.config()
	c.Workers, c.Hold = 4, 100*time.Millisecond
	p := start(t, "consumer", c)
	stopped, begun := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		<-begun
		down := time.Duration(full(10)) * time.Second
		for range 3 {
			time.Sleep(100 * time.Millisecond)
			r.server.kill()
			time.Sleep(down)
			r.server.restart()
			down = 100 * time.Millisecond
		}
		for end := time.Now().Add(time.Minute); time.Now().Before(end) && r.unsettled() != 0; {
			time.Sleep(20 * time.Millisecond)
		}
		_ = p.cmd.Process.Signal(terminate)
	}()
	var once sync.Once
	p.wait(func(words []string) {
		once.Do(func() { close(begun) })
		r.see(words)
	})
	once.Do(func() { close(begun) })
	<-stopped
	if p.err != nil {
		t.Errorf("the consumer ended with %v", p.err)
	}
	if n := r.unsettled(); n != 0 {
		t.Errorf("%d messages are not settled", n)
	}
	r.look()
	r.check(map[string]string{
		"refuse": "terminal", "fail": "exhausted", "doubt": "in-doubt", "garbage": "decode",
	})
}

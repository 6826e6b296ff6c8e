//go:build servers && linux

package kafkabroker_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
)

// theatre is a topic, the other side of its members, and what they need.
type theatre struct {
	t          *testing.T
	o          *other
	partitions int
	witness    *Witness
	cfg        memberConfig // of the next member
	members    int
}

func newTheatre(t *testing.T, partitions int) *theatre {
	t.Helper()
	h := &theatre{t: t, o: newOther(t, server(t)), partitions: partitions, witness: &Witness{}}
	h.cfg = memberConfig{
		Brokers: h.o.addrs, Topic: h.o.newTopic(t, partitions), Group: fmt.Sprint("g", time.Now().UnixNano()),
		Session: 2 * time.Second, Lease: 2 * time.Second, Late: -1,
	}
	h.cfg.Witness = h.witness.listen(t, socketDir(t))
	return h
}

// enter starts a member, changed by with.
func (h *theatre) enter(with func(*memberConfig)) *process {
	h.t.Helper()
	cfg := h.cfg
	h.members++
	cfg.Name = fmt.Sprint("m", h.members)
	if with != nil {
		with(&cfg)
	}
	return startMember(h.t, cfg)
}

func (h *theatre) send(partition int32, t task) {
	h.t.Helper()
	value, _ := json.Marshal(t)
	h.o.produce(h.t, h.cfg.Topic, brokers.Outgoing{Value: value, Partition: &partition})
}

// ranBy is the member that ran something first, "" while nobody has.
func (h *theatre) ranBy(no string) string {
	if rs := h.witness.of(no); len(rs) > 0 {
		return rs[0].Member
	}
	return ""
}

// letter is what a letter says of itself.
type letter struct{ id, reason, partition string }

func (h *theatre) letters() (ls []letter) {
	h.t.Helper()
	for _, r := range h.o.records(h.t, h.cfg.Topic+"."+h.cfg.Group+".dlq") {
		var l letter
		for _, head := range r.Headers {
			switch head.Key {
			case "dl-id":
				l.id = string(head.Value)
			case "dl-reason":
				l.reason = string(head.Value)
			case "dl-source-partition":
				l.partition = string(head.Value)
			}
		}
		ls = append(ls, l)
	}
	return ls
}

// wantOneIncident: the handler has run once, and the letters, so many, are one
// when folded by their dl-id; the first is of the partition that it says.
func (h *theatre) wantOneIncident(no string, letters int, first string) {
	h.t.Helper()
	eventually(h.t, "all is settled", func() bool { return h.o.settled(h.t, h.cfg.Group, h.cfg.Topic, h.partitions) })
	if rs := h.witness.of(no); len(rs) != 1 {
		h.t.Errorf("the handler ran %d times: %+v", len(rs), rs)
	}
	ls := h.letters()
	if len(ls) != letters || ls[0].partition != first {
		h.t.Errorf("letters %+v, want %d, the first of partition %s", ls, letters, first)
	}
	for _, l := range ls {
		if l.id == "" || l.id != ls[0].id || l.reason != "terminal" {
			h.t.Errorf("letters %+v, want one dl-id, and terminal", ls)
		}
	}
}

// deaths are the steps after "completed as failed" at which a process dies, and
// how many letters there are in the end.
var deaths = []struct {
	step    string
	letters int
}{{"before letter", 1}, {"after letter", 2}, {"before ack", 1}}

// A copy of the same key comes from another partition before the message whose
// process was killed.
func TestAfterAKillAroundItsLetterACopyFromAnotherPartitionWritesNoOther(t *testing.T) {
	for _, d := range deaths {
		t.Run("restarted on its file "+d.step, func(t *testing.T) {
			t.Parallel()
			h := newTheatre(t, 2)
			h.cfg.File, h.cfg.Instance = filepath.Join(t.TempDir(), "one.db"), "one"
			p := h.enter(func(c *memberConfig) { c.Step = d.step })
			h.send(0, task{"bad", "refuse"})
			p.wait(t, 20*time.Second)
			if !p.killed() {
				t.Fatalf("not killed: %v", p.err)
			}
			h.send(1, task{"bad", "refuse"})
			p = h.enter(func(c *memberConfig) { c.Late = 0 })
			h.wantOneIncident("bad", d.letters, map[string]string{"before letter": "1", "after letter": "0", "before ack": "0"}[d.step])
			p.terminate(t)
		})
		t.Run("taken over by another member "+d.step, func(t *testing.T) {
			t.Parallel()
			h := newTheatre(t, 2)
			_, h.cfg.Store = shareStore(t, socketDir(t))
			ps := map[string]*process{}
			for range 2 {
				p := h.enter(func(c *memberConfig) { c.Step = d.step })
				ps[p.name] = p
			}
			// Who has which partition?
			owners := func(turn int) (zero, one string) {
				for part := range int32(2) {
					h.send(part, task{fmt.Sprint("probe-", turn, "-", part), "book"})
				}
				eventually(t, "both run", func() bool {
					zero, one = h.ranBy(fmt.Sprint("probe-", turn, "-0")), h.ranBy(fmt.Sprint("probe-", turn, "-1"))
					return zero != "" && one != ""
				})
				return zero, one
			}
			zero, one := owners(0)
			for turn := 1; zero == one && turn < 50; turn++ {
				time.Sleep(100 * time.Millisecond)
				zero, one = owners(turn)
			}
			if zero == one {
				t.Fatal("one has both partitions")
			}
			h.send(0, task{"bad", "refuse"})
			ps[zero].wait(t, 20*time.Second)
			if !ps[zero].killed() {
				t.Fatalf("not killed: %v", ps[zero].err)
			}
			// The other one does not have the killed one's partition before its
			// session ends.
			h.send(1, task{"bad", "refuse"})
			h.wantOneIncident("bad", d.letters, map[string]string{"before letter": "1", "after letter": "0", "before ack": "0"}[d.step])
			ps[one].terminate(t)
		})
	}
}

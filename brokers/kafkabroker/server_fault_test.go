//go:build servers

package kafkabroker_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers"
)

// servers is a real cluster of this test's own.
type servers struct {
	t     *testing.T
	dir   string
	addrs []string
}

func startServers(t *testing.T, brokers int) *servers {
	t.Helper()
	s := &servers{t: t, dir: t.TempDir()}
	t.Cleanup(func() { s.run("stop", s.dir) })
	out := strings.TrimSpace(s.run("start", s.dir, "--port", "0", "--brokers", strconv.Itoa(brokers)))
	s.addrs = strings.Split(out[strings.LastIndex(out, "\n")+1:], ",")
	return s
}

func (s *servers) run(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("../../testdata/servers/kafka", args...)
	out, err := cmd.Output()
	if err != nil {
		s.t.Errorf("kafka %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// on does something to a broker, counted from 1 as their ids are.
func (s *servers) on(what string, broker int32) {
	s.t.Helper()
	s.run(what, s.dir, strconv.Itoa(int(broker)))
}

// traffic is a producer, a source, a publisher and a whole consumer that go on
// while brokers fail.
type traffic struct {
	t     *testing.T
	o     *other
	topic string
	group string
	r     *reader
	b     brokers.Broker
	dead  string

	mu        sync.Mutex
	stored    map[int64]int32     // ids that the cluster has confirmed, and their partition
	seen      map[int64]int       // how often each was delivered
	last      map[int32]time.Time // of a delivery of each partition
	confirmed []int64             // letters that Publish has confirmed
	back      []string            // positions that went backwards

	stop, dry context.CancelFunc
	all, well sync.WaitGroup
	clerk     *clerk
}

const faultPartitions = 6

func newTraffic(t *testing.T, s *servers) *traffic {
	t.Helper()
	f := &traffic{t: t, o: newOther(t, s.addrs, kgo.RequestTimeoutOverhead(3*time.Second)), stored: map[int64]int32{}, seen: map[int64]int{}, last: map[int32]time.Time{}}
	f.topic = f.o.newTopic(t, faultPartitions)
	cfg := quick(s.addrs...)
	cfg.SessionTimeout, cfg.RebalanceTimeout, cfg.Heartbeat = 6*time.Second, 6*time.Second, 500*time.Millisecond
	cfg.CommitInterval, cfg.WatchInterval = 200*time.Millisecond, time.Second
	f.b = connect(t, cfg)
	sp := on(f.topic)
	f.group, f.dead = sp.Consumer, f.b.Destinations(sp.Consumer, f.topic).DeadLetter
	f.r = open(t, f.b, sp)
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	flowing, dry := context.WithCancel(ctx)
	f.dry = dry
	f.well.Go(func() { f.produce(flowing) })
	f.all.Go(func() { f.consume(ctx) })
	f.all.Go(func() { f.publish(ctx) })
	f.all.Go(func() { f.positions(ctx) })
	f.all.Go(func() { f.browse(ctx) })
	f.clerk = newClerk(t, cfg, f.topic)
	eventually(t, "traffic", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.last) == faultPartitions })
	return f
}

func id(v []byte) int64 { return int64(binary.BigEndian.Uint64(v)) }

func (f *traffic) produce(ctx context.Context) {
	for n := int64(1); ctx.Err() == nil; n++ {
		p := int32(n % faultPartitions)
		f.o.client.Produce(context.Background(), &kgo.Record{Topic: f.topic, Partition: p, Value: binary.BigEndian.AppendUint64(nil, uint64(n))}, func(_ *kgo.Record, err error) {
			if err == nil {
				f.mu.Lock()
				f.stored[n] = p
				f.mu.Unlock()
			}
		})
		time.Sleep(5 * time.Millisecond)
	}
}

func (f *traffic) consume(ctx context.Context) {
	for {
		ds, err := f.r.Receive(ctx, brokers.Limit{Messages: 100, Bytes: 1 << 20})
		if err != nil {
			if ctx.Err() == nil {
				f.t.Errorf("receive: %v", err)
			}
			return
		}
		f.mu.Lock()
		for _, d := range ds {
			f.seen[id(d.Value)]++
			f.last[d.Lane.Partition] = time.Now()
		}
		f.mu.Unlock()
		_ = f.r.Ack(ds) // of a lane that has ended: they come again
	}
}

func (f *traffic) publish(ctx context.Context) {
	for n := int64(0); ctx.Err() == nil; n++ {
		m := brokers.Outgoing{Topic: f.dead, Key: binary.BigEndian.AppendUint64(nil, uint64(n)), Value: binary.BigEndian.AppendUint64(nil, uint64(n))}
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		began := time.Now()
		err := f.b.Publish(once, []brokers.Outgoing{m})[0]
		cancel()
		if took := time.Since(began); took > 3*time.Second {
			f.t.Errorf("a publish of 2 s took %v", took)
		}
		f.mu.Lock()
		if err == nil {
			f.confirmed = append(f.confirmed, n)
		}
		f.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
}

// browse looks through the topic again and again, slowly: offset after offset of
// each partition, whatever fails, unless that takes half a minute.
func (f *traffic) browse(ctx context.Context) {
	browser := f.b.(brokers.Browser)
	for ctx.Err() == nil {
		next := map[int32]int64{}
		n := 0
		heard := time.Now()
		for d, err := range browser.Browse(ctx, f.topic, brokers.From{}) {
			if err != nil {
				if ctx.Err() == nil && time.Since(heard) < 30*time.Second {
					f.t.Errorf("browse: %v after %v", err, time.Since(heard))
				}
				break
			}
			heard = time.Now()
			p := d.Lane.Partition
			if d.Offset != next[p] {
				f.t.Errorf("browse of partition %d: offset %d, want %d", p, d.Offset, next[p])
			}
			next[p] = d.Offset + 1
			if n++; n%50 == 0 {
				time.Sleep(100 * time.Millisecond)
			}
		}
	}
}

// positions watches that the group's position of partition 0 only goes up.
func (f *traffic) positions(ctx context.Context) {
	highest := int64(-1)
	for ctx.Err() == nil {
		req := kmsg.NewPtrOffsetFetchRequest()
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = f.group
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = f.topic, []int32{0}
		g.Topics = append(g.Topics, gt)
		req.Groups = append(req.Groups, g)
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		res, err := req.RequestWith(once, f.o.client)
		cancel()
		if err == nil && len(res.Groups) == 1 && len(res.Groups[0].Topics) == 1 && res.Groups[0].ErrorCode == 0 {
			if p := res.Groups[0].Topics[0].Partitions[0]; p.ErrorCode == 0 {
				f.mu.Lock()
				// -1 is what a coordinator says that has just come back.
				if p.Offset >= 0 && p.Offset < highest {
					f.back = append(f.back, fmt.Sprintf("%d after %d", p.Offset, highest))
				}
				highest = max(highest, p.Offset)
				f.mu.Unlock()
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// recovers waits until every partition delivers what was stored after now, and
// returns how long it took after the cluster itself was back, which is when
// the producer got through to each partition.
func (f *traffic) recovers(limit time.Duration) {
	f.t.Helper()
	began := time.Now()
	f.mu.Lock()
	newest := map[int32]int64{}
	for n, p := range f.stored {
		newest[p] = max(newest[p], n)
	}
	f.mu.Unlock()
	var cluster, ours time.Time
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		stored, read := map[int32]bool{}, map[int32]bool{}
		f.mu.Lock()
		for n, p := range f.stored {
			if n > newest[p] {
				stored[p] = true
				if f.seen[n] > 0 {
					read[p] = true
				}
			}
		}
		f.mu.Unlock()
		if len(stored) == faultPartitions && cluster.IsZero() {
			cluster = time.Now()
		}
		if len(read) == faultPartitions {
			ours = time.Now()
			break
		}
		if time.Now().After(end) {
			f.r.mu.Lock()
			defer f.r.mu.Unlock()
			f.t.Fatalf("stored in %d, read in %d partitions; %v", len(stored), len(read), f.r.told)
		}
	}
	after := ours.Sub(cluster)
	f.t.Logf("cluster back after %v, reading %v after it", cluster.Sub(began).Round(time.Millisecond), after.Round(time.Millisecond))
	if after > limit {
		f.t.Errorf("reading again %v after the cluster was back", after)
	}
	letters := func() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.confirmed) }
	n := letters()
	for letters() == n {
		if time.Since(cluster) > limit {
			f.t.Errorf("no letter is confirmed %v after the cluster was back", limit)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// finish stops, and checks that nothing is missing.
func (f *traffic) finish() {
	f.t.Helper()
	f.dry()
	f.well.Wait()
	if err := f.o.client.Flush(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	missing := func() (n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for id := range f.stored {
			if f.seen[id] == 0 {
				n++
			}
		}
		return n
	}
	eventually(f.t, "all that was stored is read", func() bool { return missing() == 0 })
	f.stop()
	f.all.Wait()
	f.clerk.finish(f.o, f.stored)
	again := 0
	for _, n := range f.seen {
		again += n - 1
	}
	letters := map[int64]bool{}
	for _, m := range f.o.records(f.t, f.dead) {
		letters[id(m.Value)] = true
	}
	lost := slices.DeleteFunc(slices.Clone(f.confirmed), func(n int64) bool { return letters[n] })
	f.t.Logf("%d stored, %d read again; %d letters confirmed", len(f.stored), again, len(f.confirmed))
	if len(lost) > 0 {
		f.t.Errorf("confirmed letters that are not there: %v", lost)
	}
	if len(f.back) > 0 {
		f.t.Errorf("positions went backwards: %v", f.back)
	}
	if missing() > 0 {
		f.t.Errorf("%d are lost", missing())
	}
	f.r.close()
}

func (f *traffic) leader() int32 {
	meta := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = &f.topic
	meta.Topics = append(meta.Topics, mt)
	m, err := meta.RequestWith(f.t.Context(), f.o.client)
	if err != nil {
		f.t.Fatal(err)
	}
	return m.Topics[0].Partitions[0].Leader
}

func (f *traffic) coordinator() int32 {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = f.group, []string{f.group}
	res, err := req.RequestWith(f.t.Context(), f.o.client)
	if err != nil {
		f.t.Fatal(err)
	}
	if len(res.Coordinators) > 0 {
		return res.Coordinators[0].NodeID
	}
	return res.NodeID
}

// recovery is how long after the cluster messages must flow again.
const recovery = 5 * time.Second

// Full size with ONCEWARD_SOAK: all brokers are away for 60 s, one is paused for
// 30 s.
func TestSoakBrokersThatFail(t *testing.T) {
	s := startServers(t, 3)
	whole := func() {
		t.Helper()
		s.run("start", s.dir)
	}
	t.Run("LeaderKilled", func(t *testing.T) {
		s.t = t
		f := newTraffic(t, s)
		s.on("kill", f.leader())
		f.recovers(recovery)
		whole()
		f.finish()
	})
	t.Run("CoordinatorKilled", func(t *testing.T) {
		s.t = t
		f := newTraffic(t, s)
		s.on("kill", f.coordinator())
		f.recovers(recovery)
		whole()
		f.finish()
	})
	t.Run("OnePausedWithoutAReset", func(t *testing.T) {
		s.t = t
		f := newTraffic(t, s)
		victim := f.leader()
		s.on("pause", victim)
		paused := time.Now()
		f.recovers(recovery)
		time.Sleep(time.Until(paused.Add(sized(30*time.Second, 14*time.Second))))
		s.on("cont", victim)
		t.Logf("paused for %v", time.Since(paused).Round(time.Second))
		f.recovers(recovery)
		f.finish()
	})
	t.Run("AllStopped", func(t *testing.T) {
		s.t = t
		f := newTraffic(t, s)
		for b := range int32(3) {
			s.on("kill", b+1)
		}
		away := time.Now()
		time.Sleep(sized(60*time.Second, 15*time.Second))
		whole()
		t.Logf("away for %v", time.Since(away).Round(time.Second))
		f.recovers(recovery)
		f.finish()
	})
	t.Run("TheFirstAddressIsSilent", func(t *testing.T) {
		s.t = t
		s.on("pause", 1)
		defer s.on("cont", 1)
		time.Sleep(4 * time.Second) // the others take over
		o := newOther(t, s.addrs[1:], kgo.RequestTimeoutOverhead(3*time.Second))
		topic := o.newTopic(t, 2)
		o.produce(t, topic, outgoing("m", 0, 3)...)
		began := time.Now()
		r := open(t, connect(t, quick(s.addrs...)), on(topic))
		r.take(3)
		t.Logf("first messages after %v", time.Since(began).Round(time.Millisecond))
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	s.t = t
}

package group

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
)

// rig is one member on an in-process cluster, and what it was told.
type rig struct {
	t    *testing.T
	fake *kfake.Cluster
	m    *Member
	stop context.CancelFunc
	end  chan error

	mu      sync.Mutex
	owned   map[Claim]bool
	lost    int
	revoked int
	hold    chan struct{} // where not nil, Revoked waits for it
}

func newRig(t *testing.T, instance string) *rig {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(4, "t"), kfake.GroupMinSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return join(t, c, instance)
}

func join(t *testing.T, c *kfake.Cluster, instance string) *rig {
	cl := cluster.New(cluster.Config{Seeds: c.ListenAddrs(), ClientID: "t", MaxData: 1 << 20, Dial: new(net.Dialer).DialContext})
	r := &rig{t: t, fake: c, end: make(chan error, 1), owned: map[Claim]bool{}}
	r.m = New(Config{
		Cluster: cl, Group: "g", Instance: instance, Topics: []string{"later", "t"},
		Session: 2 * time.Second, Rebalance: 2 * time.Second, Heartbeat: 50 * time.Millisecond, Drain: 10 * time.Second,
		Assigned: func(cs []Claim) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, c := range cs {
				r.owned[c] = true
			}
		},
		Revoked: func(ctx context.Context, cs []Claim) {
			r.mu.Lock()
			hold := r.hold
			r.mu.Unlock()
			if hold != nil {
				select {
				case <-hold:
				case <-ctx.Done():
				}
			}
			r.drop(cs, &r.revoked)
		},
		Lost: func(cs []Claim, _ error) { r.drop(cs, &r.lost) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.end <- r.m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		r.m.Kill()
		select {
		case <-r.end:
		case <-time.After(10 * time.Second):
			t.Error("Run does not end")
		}
		cl.Close()
	})
	return r
}

func (r *rig) drop(cs []Claim, n *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*n += len(cs)
	for _, c := range cs {
		delete(r.owned, c)
	}
}

func (r *rig) claims() (cs map[Claim]Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cs = map[Claim]Position{}
	for c := range r.owned {
		cs[c] = Position{Offset: 7}
	}
	return cs
}

func (r *rig) count(n *int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *n
}

func (r *rig) waits(hold chan struct{}) {
	r.mu.Lock()
	r.hold = hold
	r.mu.Unlock()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("never: " + what)
}

// settle waits until the member owns n partitions, and returns its claims.
func (r *rig) settle(n int) map[Claim]Position {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d partitions", n), func() bool { return len(r.claims()) == n })
	return r.claims()
}

func (r *rig) commit(cs map[Claim]Position) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return r.m.Commit(ctx, cs)
}

// once answers the next request of a kind with a code.
func (r *rig) once(key, code int16) <-chan struct{} {
	hit := make(chan struct{})
	r.fake.ControlKey(key, func(req kmsg.Request) (kmsg.Response, error, bool) {
		res := req.ResponseKind()
		switch x := res.(type) {
		case *kmsg.JoinGroupResponse:
			x.ErrorCode = code
		case *kmsg.SyncGroupResponse:
			x.ErrorCode = code
		case *kmsg.HeartbeatResponse:
			x.ErrorCode = code
		case *kmsg.OffsetCommitResponse:
			for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
				rt := kmsg.OffsetCommitResponseTopic{Topic: t.Topic}
				for _, p := range t.Partitions {
					rt.Partitions = append(rt.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
				}
				x.Topics = append(x.Topics, rt)
			}
		}
		close(hit)
		return res, nil, true
	})
	return hit
}

const (
	offsetCommit, joinGroup, heartbeat, syncGroup = 8, 11, 12, 14

	loading, notAvailable, notCoordinator = 14, 15, 16

	illegalGeneration, unknownMember, rebalancing, fenced = 22, 25, 27, 82
)

func TestEachCodeOfTheCoordinatorHasItsConsequence(t *testing.T) {
	for key, name := range map[int16]string{offsetCommit: committing, joinGroup: joining, heartbeat: beating, syncGroup: syncing} {
		for _, code := range []int16{loading, notAvailable, notCoordinator, illegalGeneration, unknownMember, rebalancing, fenced} {
			t.Run(fmt.Sprintf("%s/%v", name, kerr.ErrorForCode(code)), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, "i")
				before := r.settle(4)
				loses := code == illegalGeneration || code == unknownMember || code == fenced
				hit := r.once(key, code)
				var commitErr error
				switch key {
				case offsetCommit:
					commitErr = r.commit(before)
				case joinGroup, syncGroup:
					r.m.request("test")
				}
				select {
				case <-hit:
				case <-time.After(10 * time.Second):
					t.Fatal("no such request")
				}
				if key == offsetCommit && loses != (commitErr != nil) {
					t.Errorf("commit: %v", commitErr)
				}
				if code == fenced {
					select {
					case err := <-r.end:
						r.end <- err
						if !errors.Is(err, ErrFenced) {
							t.Errorf("Run ended with %v", err)
						}
					case <-time.After(10 * time.Second):
						t.Error("Run goes on")
					}
				} else {
					eventually(t, "partitions lost", func() bool { return r.count(&r.lost) == 4 || !loses })
					if err := r.commit(r.settle(4)); err != nil {
						t.Errorf("commit afterwards: %v", err)
					}
					if err := r.commit(before); loses && !errors.Is(err, ErrNotOwned) {
						t.Errorf("commit of the former claims: %v", err)
					}
				}
				want := 0
				if loses {
					want = 4
				}
				if lost := r.count(&r.lost); lost != want {
					t.Errorf("lost %d, want %d", lost, want)
				}
			})
		}
	}
}

func (m *Member) who() (string, int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id, m.generation
}

func TestLateAnswersDoNotLoseTheMembership(t *testing.T) {
	r := newRig(t, "")
	r.settle(4)
	id, generation := r.m.who()
	for _, code := range []kafka.Error{kafka.IllegalGeneration, kafka.UnknownMemberId} {
		_ = r.m.judge(beating, code, id, generation-1)
		_ = r.m.judge(committing, code, "former-"+id, generation)
	}
	if r.count(&r.lost) != 0 {
		t.Fatal("lost")
	}
}

func TestAFormerDrainDoesNotEndANewClaim(t *testing.T) {
	r := newRig(t, "")
	r.settle(4)
	hold := make(chan struct{})
	r.waits(hold)
	r.m.revoke(r.m.held())
	<-r.once(heartbeat, unknownMember)
	eventually(t, "lost", func() bool { return r.count(&r.lost) == 4 })
	r.waits(nil)
	now := r.settle(4)
	close(hold)
	r.m.drains.Wait()
	if err := r.commit(now); err != nil {
		t.Fatal(err)
	}
}

// Between a join and a failed sync the generation is not one of which the
// member knows its partitions (KAFKA-14639).
func TestClaimsCarryTheGenerationOfTheLastSync(t *testing.T) {
	r := newRig(t, "i")
	r.settle(4)
	_, generation := r.m.who()
	said := make(chan int32, 100)
	r.fake.ControlKey(joinGroup, func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.fake.KeepControl()
		s, err := decodeSubscription(req.(*kmsg.JoinGroupRequest).Protocols[0].Metadata)
		if err != nil || len(s.claims) != 4 {
			t.Errorf("%+v, %v", s, err)
		}
		said <- s.generation
		return nil, nil, false
	})
	hit := r.once(syncGroup, rebalancing)
	r.m.request("test")
	<-hit
	for range 2 { // before the failed sync, and after it
		if g := <-said; g != generation {
			t.Fatalf("claims of generation %d, not %d", g, generation)
		}
	}
}

func TestPartitionsThatStayAreNotTouchedAndTheOthersAreDrainedFirst(t *testing.T) {
	a := newRig(t, "")
	mine := a.settle(4)
	hold := make(chan struct{})
	a.waits(hold)
	b := join(t, a.fake, "")
	eventually(t, "a is draining", func() bool { return len(a.m.held()) == 2 })
	// The drain outlasts the rebalance and the session timeout: nothing is
	// lost, and nobody else gets what drains.
	time.Sleep(2500 * time.Millisecond)
	if len(b.claims()) != 0 || a.count(&a.lost) != 0 {
		t.Fatalf("b has %v, a lost %d", b.claims(), a.lost)
	}
	if err := a.commit(mine); err != nil {
		t.Errorf("commit while draining: %v", err)
	}
	close(hold)
	a.settle(2)
	b.settle(2)
	for c := range a.claims() {
		if _, same := mine[c]; !same {
			t.Errorf("%v is another claim", c)
		}
	}
	if err := a.commit(mine); !errors.Is(err, ErrNotOwned) {
		t.Errorf("commit of what was given up: %v", err)
	}
	a.stop()
	b.settle(4)
}

func TestAStaticMemberComesBackToItsPartitions(t *testing.T) {
	a := newRig(t, "a")
	a.settle(4)
	b := join(t, a.fake, "b")
	a.settle(2)
	b.settle(2)
	partitions := func(r *rig) (ps []string) {
		for c := range r.claims() {
			ps = append(ps, fmt.Sprint(c.Partition))
		}
		slices.Sort(ps)
		return ps
	}
	had := partitions(a)
	a.stop()
	a.end <- <-a.end
	again := join(t, a.fake, "a")
	again.settle(2)
	if got := partitions(again); !slices.Equal(got, had) {
		t.Errorf("had %v, got %v", had, got)
	}
	if n := b.count(&b.revoked); n != 0 {
		t.Errorf("b gave up %d", n)
	}
}

func TestACommitNamesNoLeaderEpoch(t *testing.T) {
	r := newRig(t, "")
	cs := r.settle(4)
	epochs := make(chan int32, 100)
	r.fake.ControlKey(offsetCommit, func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.fake.KeepControl()
		for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range t.Partitions {
				epochs <- p.LeaderEpoch
			}
		}
		return nil, nil, false
	})
	if err := r.commit(cs); err != nil {
		t.Fatal(err)
	}
	for range cs {
		if e := <-epochs; e != -1 {
			t.Errorf("epoch %d", e)
		}
	}
}

func TestWithoutAnswersTheLeaseEndsAndNothingIsLost(t *testing.T) {
	r := newRig(t, "")
	cs := r.settle(4)
	if !r.m.Leased() {
		t.Fatal("no lease")
	}
	silent := make(chan struct{})
	r.fake.ControlKey(heartbeat, func(kmsg.Request) (kmsg.Response, error, bool) {
		r.fake.KeepControl()
		select {
		case <-silent:
			return nil, nil, false
		default:
			return nil, errors.New("cut"), true
		}
	})
	eventually(t, "the lease ends", func() bool { return !r.m.Leased() })
	if len(r.claims()) != len(cs) || r.count(&r.lost) != 0 {
		t.Errorf("owns %d, lost %d", len(r.claims()), r.lost)
	}
	close(silent)
	eventually(t, "a lease again", func() bool { return r.m.Leased() })
}

func TestATopicThatComesLaterIsJoinedForOnce(t *testing.T) {
	r := newRig(t, "")
	r.settle(4)
	_, generation := r.m.who()
	joins := 0
	var mu sync.Mutex
	r.fake.ControlKey(joinGroup, func(kmsg.Request) (kmsg.Response, error, bool) {
		r.fake.KeepControl()
		mu.Lock()
		joins++
		mu.Unlock()
		return nil, nil, false
	})
	for range 20 {
		r.m.Observe(map[string]int32{"t": 4})
	}
	if _, now := r.m.who(); now != generation {
		t.Error("joined although nothing changed")
	}
	if err := r.fake.CreateTopic("later", 3, nil); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		r.m.Observe(map[string]int32{"t": 4, "later": 3})
		time.Sleep(10 * time.Millisecond)
	}
	r.settle(7)
	mu.Lock()
	defer mu.Unlock()
	if joins > 2 {
		t.Errorf("%d joins for one change", joins)
	}
}

package group

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
)

// Claim is one period of owning a partition.
type Claim struct {
	coop.Partition
	Epoch int64 // larger for each claim of one member
}

// Position is what is committed for a claim.
type Position struct {
	Offset int64
	Text   string // kept beside the offset, at most 4,096 bytes
}

// Config describes a member. All of it is needed but Instance and the
// callbacks from Joined on.
type Config struct {
	Cluster  *cluster.Cluster
	Group    string
	Instance string // name of a static member: it does not leave at its end
	Topics   []string

	Session   time.Duration // silence after which the coordinator gives the partitions away
	Rebalance time.Duration // how long the coordinator waits for members to join again
	Heartbeat time.Duration // how often the member shows that it lives
	Drain     time.Duration // bound of Revoked; it may be longer than the others

	// Leads names the topic that another one follows, or "": their partitions
	// go to the same members.
	Leads func(topic string) string
	// Assigned begins work. It must not block.
	Assigned func([]Claim)
	// Revoked ends it: when it returns, the claims are over. Several may run
	// at the same time, for different claims.
	Revoked func(ctx context.Context, _ []Claim)
	// Lost says that claims are over already. It must not block.
	Lost func(_ []Claim, cause error)

	// Joined says that a round is over; Assigned was called before.
	Joined func()
	// Trouble hears of what heals by itself, and nil when it has.
	Trouble func(error)
	// Foreign hears of members of other software, when this one leads.
	Foreign func(names []string)
	// Healthy is asked before each heartbeat; an error ends the membership.
	Healthy func() error
}

// ErrNotOwned says that a claim was over when its position was to be committed.
var ErrNotOwned = errors.New("partition is not owned any more")

// holding is a claim's state.
type holding struct {
	epoch    int64
	draining bool
}

// Member is one member of one group. Make it with [New].
type Member struct {
	cfg         Config
	coordinator coordinator
	wake        chan struct{}      // a reason to join came up
	drains      sync.WaitGroup     // running Revoked calls
	stop        context.CancelFunc // ends Run's waits on a fatal error
	alive       context.Context    // of all requests
	kill        context.CancelFunc

	mu         sync.Mutex
	id         string // given by the coordinator, kept over its failures
	generation int32  // for requests; -1 outside of one
	synced     int32  // generation in which the claims were last confirmed: what a join says of them (KAFKA-14639)
	joining    bool
	settled    time.Time // of the last change of generation
	claims     map[coop.Partition]holding
	epoch      int64
	lease      time.Time // until then nobody else can have the partitions
	reason     string    // to join, empty when there is none
	fatal      error
	changed    chan struct{}      // closed at each change of generation
	life       context.Context    // of the membership: its end ends drains
	endLife    context.CancelFunc //
	baseline   map[string]int32   // partition counts before the last join
}

// New starts nothing.
func New(c Config) *Member {
	m := &Member{
		cfg: c, coordinator: coordinator{cluster: c.Cluster, group: c.Group, node: -1},
		wake: make(chan struct{}, 1), generation: -1, synced: -1,
		claims: map[coop.Partition]holding{}, changed: make(chan struct{}),
		stop: func() {},
	}
	m.alive, m.kill = context.WithCancel(context.Background())
	m.life, m.endLife = context.WithCancel(m.alive)
	return m
}

// Leased says whether work may begin: the coordinator was heard of within the
// session timeout, so nobody else can have been given the partitions.
func (m *Member) Leased() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Before(m.lease)
}

// Owns says whether a claim is held, and not to be given up.
func (m *Member) Owns(c Claim) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.claims[c.Partition]
	return ok && h.epoch == c.Epoch && !h.draining
}

// Observe tells the member how many partitions its topics have. When that is
// not what it joined with, it joins again, once.
func (m *Member) Observe(counts map[string]int32) {
	m.mu.Lock()
	differs := m.baseline != nil && !maps.Equal(counts, m.baseline)
	m.mu.Unlock()
	if differs {
		m.request("topics or partitions changed")
	}
}

// Run keeps the membership until ctx ends; then it revokes everything and
// leaves, a static member excepted, and returns nil. It returns an error when
// the membership cannot go on: see [Fatal].
func (m *Member) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m.mu.Lock()
	m.stop = stop
	m.mu.Unlock()
	beating, quiet := context.WithCancel(m.alive)
	var beats sync.WaitGroup
	beats.Go(func() { m.beat(beating) })
	defer func() {
		quiet()
		beats.Wait()
		m.endLife()
	}()
	m.request("start")
	pause := time.Duration(0)
	for {
		m.mu.Lock()
		reason, fatal := m.reason, m.fatal
		m.mu.Unlock()
		switch {
		case fatal != nil:
			m.lose(fatal)
			m.drains.Wait()
			if !errors.Is(fatal, ErrFenced) {
				m.leave()
			}
			return fatal
		case ctx.Err() != nil:
			m.revoke(m.held())
			m.drains.Wait()
			m.leave()
			return nil
		case reason == "":
			select {
			case <-ctx.Done():
			case <-m.wake:
			}
			continue
		}
		err := m.round(ctx)
		if err == nil {
			pause = 0
			continue
		}
		m.request(cmp.Or(reason, "again"))
		pause = backoff(pause, err)
		if pause > 0 && ctx.Err() == nil {
			m.trouble(err)
		}
		sleep(ctx, pause)
	}
}

// Kill ends everything at once: no request is sent any more, and the group
// notices by itself.
func (m *Member) Kill() { m.kill() }

// held lists the claims that are not draining.
func (m *Member) held() (cs []Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, h := range m.claims {
		if !h.draining {
			cs = append(cs, Claim{p, h.epoch})
		}
	}
	return cs
}

// gain makes claims of partitions that this member did not have, unless the
// generation is over.
func (m *Member) gain(id string, generation int32, added []coop.Partition) {
	m.mu.Lock()
	if len(added) == 0 || m.id != id || m.synced != generation {
		m.mu.Unlock()
		return
	}
	cs := make([]Claim, len(added))
	for i, p := range added {
		m.epoch++
		m.claims[p] = holding{epoch: m.epoch}
		cs[i] = Claim{p, m.epoch}
	}
	m.mu.Unlock()
	m.cfg.Assigned(cs)
}

// revoke drains claims beside everything else, and drops them at the end.
func (m *Member) revoke(cs []Claim) {
	if len(cs) == 0 {
		return
	}
	m.mu.Lock()
	for _, c := range cs {
		m.claims[c.Partition] = holding{c.Epoch, true}
	}
	life := m.life
	m.mu.Unlock()
	m.drains.Go(func() {
		ctx, cancel := context.WithTimeout(life, m.cfg.Drain)
		defer cancel()
		m.cfg.Revoked(ctx, cs)
		m.mu.Lock()
		for _, c := range cs {
			if m.claims[c.Partition].epoch == c.Epoch {
				delete(m.claims, c.Partition)
			}
		}
		m.mu.Unlock()
		m.request("revoked partitions are free")
	})
}

// lose drops all claims without a commit.
func (m *Member) lose(cause error) {
	m.mu.Lock()
	var cs []Claim
	for p, h := range m.claims {
		cs = append(cs, Claim{p, h.epoch})
	}
	clear(m.claims)
	m.generation, m.synced, m.lease = -1, -1, time.Time{}
	if unknown(cause) {
		m.id = ""
	}
	m.endLife()
	m.life, m.endLife = context.WithCancel(m.alive)
	m.mu.Unlock()
	if len(cs) > 0 {
		m.cfg.Lost(cs, cause)
	}
	m.settle()
	m.request("membership lost")
}

// extend moves the lease; m.mu is held. What counts is when the request was
// sent, not when its answer came.
func (m *Member) extend(sent time.Time) {
	if until := sent.Add(m.cfg.Session); until.After(m.lease) {
		m.lease = until
	}
}

// request asks Run to join.
func (m *Member) request(reason string) {
	m.mu.Lock()
	m.reason = cmp.Or(m.reason, reason)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// fail ends Run with an error.
func (m *Member) fail(err error) {
	m.mu.Lock()
	if m.fatal == nil {
		m.fatal = err
	}
	stop := m.stop
	m.mu.Unlock()
	stop()
}

// settle says that a round is over.
func (m *Member) settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joining, m.settled = false, time.Now()
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *Member) trouble(err error) {
	if m.cfg.Trouble != nil {
		m.cfg.Trouble(err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

package coop

import (
	"cmp"
	"slices"
)

// Partition is one partition of one topic.
type Partition struct {
	Topic string
	Index int32
}

// Compare orders by topic, then index.
func (p Partition) Compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.Index, q.Index))
}

// Member is what one member said when it joined.
type Member struct {
	ID         string
	Instance   string // of a static member, else empty
	Topics     []string
	Claims     []Partition // what it still holds
	Generation int32       // when it was given those; -1 when it did not say
}

// order puts members the same way each time; static ones keep their place over
// a restart, which gives them a new ID.
func (m *Member) order() string { return cmp.Or(m.Instance, m.ID) }

// Plan is an assignment.
type Plan struct {
	// Target is where the group is heading.
	Target map[string][]Partition
	// Now is Target without what somebody else must give up first. Whoever
	// gives something up joins again, and then the rest is handed out.
	Now map[string][]Partition
}

// Assign plans. counts says how many partitions each topic has; topics without
// an entry do not exist. leads, where not nil, names the topic that another one
// follows, or "": partition p of a follower goes where partition p of its
// leader goes (modulo the leader's count) and does not count as load.
//
// A claim of an older generation than somebody else's of the same partition is
// stale: its member missed a rebalance. It gives no right to keep the
// partition; but as that member may still be at work, a third one must wait.
func Assign(members []Member, counts map[string]int32, leads func(topic string) string) Plan {
	t := newTable(members, counts, leads)
	t.keep()
	t.spread()
	for t.even() {
	}
	t.follow()
	plan := Plan{Target: map[string][]Partition{}, Now: map[string][]Partition{}}
	for i := range t.seats {
		s := &t.seats[i]
		target, now := []Partition{}, []Partition{}
		for p, owner := range t.owner {
			if owner != i {
				continue
			}
			target = append(target, t.parts[p])
			if t.free(i, p) {
				now = append(now, t.parts[p])
			}
		}
		plan.Target[s.ID], plan.Now[s.ID] = target, now
	}
	return plan
}

const nobody = -1

// seat is a member at work.
type seat struct {
	*Member
	topics map[string]bool
	load   int
}

// table is the state of planning. Members and partitions are numbered in their
// order, so that nothing depends on the order of a map.
type table struct {
	seats []seat
	parts []Partition // those that lead or stand alone first, then followers
	index map[Partition]int
	alone int                     // how many of parts are no followers
	lead  map[Partition]Partition // of followers

	owner   []int   // by partition: the seat that has it in the plan
	claims  [][]int // by partition: the seats that claim it
	rightly []int   // by partition: the one whose claim is the newest, or nobody
}

func newTable(members []Member, counts map[string]int32, leads func(string) string) *table {
	ms := slices.Clone(members)
	slices.SortFunc(ms, func(a, b Member) int { return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(a.ID, b.ID)) })
	t := &table{index: map[Partition]int{}, lead: map[Partition]Partition{}}
	wanted := map[string]bool{}
	for i := range ms {
		s := seat{Member: &ms[i], topics: map[string]bool{}}
		for _, topic := range ms[i].Topics {
			s.topics[topic] = true
			wanted[topic] = true
		}
		t.seats = append(t.seats, s)
	}
	var followers []Partition
	for topic := range wanted {
		leader := ""
		if leads != nil {
			leader = leads(topic)
		}
		for i := range counts[topic] {
			p := Partition{topic, i}
			if wanted[leader] && counts[leader] > 0 {
				t.lead[p] = Partition{leader, i % counts[leader]}
				followers = append(followers, p)
			} else {
				t.parts = append(t.parts, p)
			}
		}
	}
	slices.SortFunc(t.parts, Partition.Compare)
	slices.SortFunc(followers, Partition.Compare)
	t.alone = len(t.parts)
	t.parts = append(t.parts, followers...)
	n := len(t.parts)
	t.owner, t.claims, t.rightly = make([]int, n), make([][]int, n), make([]int, n)
	for p, part := range t.parts {
		t.index[part] = p
		t.owner[p], t.rightly[p] = nobody, nobody
	}
	t.hear()
	return t
}

// hear notes the claims. Of two with the same generation neither is believed.
func (t *table) hear() {
	newest := make([]int32, len(t.parts))
	for i := range t.seats {
		for _, part := range t.seats[i].Claims {
			p, ok := t.index[part]
			if !ok || slices.Contains(t.claims[p], i) {
				continue
			}
			generation := t.seats[i].Generation
			switch {
			case len(t.claims[p]) == 0 || generation > newest[p]:
				t.rightly[p], newest[p] = i, generation
			case generation == newest[p]:
				t.rightly[p] = nobody
			}
			t.claims[p] = append(t.claims[p], i)
		}
	}
}

// free says whether seat i may start on p at once.
func (t *table) free(i, p int) bool {
	c := t.claims[p]
	return len(c) == 0 || len(c) == 1 && c[0] == i || t.rightly[p] == i
}

func (t *table) give(p, i int) {
	if o := t.owner[p]; o != nobody {
		t.seats[o].load--
	}
	t.owner[p] = i
	t.seats[i].load++
}

// keep leaves everything where it is.
func (t *table) keep() {
	for p, i := range t.rightly[:t.alone] {
		if i != nobody && t.seats[i].topics[t.parts[p].Topic] {
			t.give(p, i)
		}
	}
}

// spread gives what nobody has to the subscriber with the least.
func (t *table) spread() {
	for p := range t.parts[:t.alone] {
		if t.owner[p] == nobody {
			t.give(p, t.least(t.parts[p].Topic))
		}
	}
}

// least is the subscriber of a topic with the least to do.
func (t *table) least(topic string) int {
	least := nobody
	for i := range t.seats {
		if t.seats[i].topics[topic] && (least == nobody || t.seats[i].load < t.seats[least].load) {
			least = i
		}
	}
	return least
}

// follow puts followers where their leaders are, as long as that member reads
// them; otherwise where they were, or to whoever has the least.
func (t *table) follow() {
	for p := t.alone; p < len(t.parts); p++ {
		topic := t.parts[p].Topic
		owner := t.owner[t.index[t.lead[t.parts[p]]]]
		if !t.seats[owner].topics[topic] {
			owner = t.rightly[p]
		}
		if owner == nobody || !t.seats[owner].topics[topic] {
			owner = t.least(topic)
		}
		t.owner[p] = owner
	}
}

// even moves one partition on each step of a shortest way from a loaded member
// to one with at least two fewer, and reports whether there was such a way:
// members may subscribe to different topics, so a partition may have to push
// another one on.
func (t *table) even() bool {
	byLoad := make([]int, len(t.seats))
	for i := range byLoad {
		byLoad[i] = i
	}
	slices.SortStableFunc(byLoad, func(a, b int) int { return cmp.Compare(t.seats[a].load, t.seats[b].load) })
	movable := t.movable()
	for _, from := range slices.Backward(byLoad) {
		if t.push(from, byLoad, movable) {
			return true
		}
	}
	return false
}

// movable lists, for each seat, the last partition of each topic that it has.
// Which one moves does not matter, as long as it is the same one each time.
func (t *table) movable() []map[string]int {
	m := make([]map[string]int, len(t.seats))
	for i := range m {
		m[i] = map[string]int{}
	}
	for p, part := range t.parts[:t.alone] {
		m[t.owner[p]][part.Topic] = p
	}
	return m
}

// push looks breadth first from one member, the emptiest neighbours first.
func (t *table) push(from int, byLoad []int, movable []map[string]int) bool {
	type step struct{ seat, part int }
	came := map[int]step{from: {nobody, nobody}}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, to := range byLoad {
			if _, seen := came[to]; seen {
				continue
			}
			p := t.pick(movable[at], to)
			if p == nobody {
				continue
			}
			came[to] = step{at, p}
			queue = append(queue, to)
			if t.seats[to].load <= t.seats[from].load-2 {
				for ; to != from; to = came[to].seat {
					t.give(came[to].part, to)
				}
				return true
			}
		}
	}
	return false
}

// pick is the highest partition that a member may take over, or nobody.
func (t *table) pick(have map[string]int, to int) int {
	best := nobody
	for topic, p := range have {
		if t.seats[to].topics[topic] {
			best = max(best, p)
		}
	}
	return best
}

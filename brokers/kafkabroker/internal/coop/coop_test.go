package coop

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// group is any group: mixed subscriptions, stale and doubled claims, claims of
// partitions that do not exist.
type group struct {
	members []Member
	counts  map[string]int32
	leads   func(string) string // b follows a, or nothing follows
}

func anyGroup(t *rapid.T) group {
	g := group{counts: map[string]int32{}}
	topics := []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "topics")]
	for _, topic := range topics {
		g.counts[topic] = int32(rapid.IntRange(0, 9).Draw(t, "partitions of "+topic))
	}
	if rapid.Bool().Draw(t, "followers") {
		g.leads = func(topic string) string {
			if topic == "b" {
				return "a"
			}
			return ""
		}
	}
	same := rapid.Bool().Draw(t, "same subscriptions")
	for i := range rapid.IntRange(1, 6).Draw(t, "members") {
		m := Member{ID: fmt.Sprint("m", i), Topics: topics, Generation: int32(rapid.IntRange(-1, 3).Draw(t, "generation"))}
		if rapid.Bool().Draw(t, "static") {
			m.Instance = fmt.Sprint("i", 9-i)
		}
		if !same {
			m.Topics = rapid.SliceOfDistinct(rapid.SampledFrom(topics), rapid.ID).Draw(t, "subscription")
		}
		for range rapid.IntRange(0, 8).Draw(t, "claims") {
			m.Claims = append(m.Claims, Partition{rapid.SampledFrom(append(topics, "gone")).Draw(t, "topic"), int32(rapid.IntRange(0, 10).Draw(t, "partition"))})
		}
		g.members = append(g.members, m)
	}
	return g
}

func places(plan map[string][]Partition) map[Partition][]string {
	h := map[Partition][]string{}
	for id, ps := range plan {
		for _, p := range ps {
			h[p] = append(h[p], id)
		}
	}
	return h
}

func TestEverySubscribedPartitionHasExactlyOnePlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGroup(t)
		target := Assign(g.members, g.counts, g.leads).Target
		h := places(target)
		for topic, n := range g.counts {
			wanted := slices.ContainsFunc(g.members, func(m Member) bool { return slices.Contains(m.Topics, topic) })
			for i := range n {
				if got := h[Partition{topic, i}]; wanted != (len(got) == 1) || len(got) > 1 {
					t.Fatalf("%s/%d, wanted %v, has %v", topic, i, wanted, got)
				}
				delete(h, Partition{topic, i})
			}
		}
		if len(h) > 0 {
			t.Fatalf("partitions that do not exist: %v", h)
		}
		for _, m := range g.members {
			for _, p := range target[m.ID] {
				if !slices.Contains(m.Topics, p.Topic) {
					t.Fatalf("%s got %v without subscribing", m.ID, p)
				}
			}
		}
	})
}

func TestNothingIsHandedOutWhileAnotherMemberMayHoldIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGroup(t)
		for id, ps := range Assign(g.members, g.counts, g.leads).Now {
			for _, p := range ps {
				own, others := int32(-2), int32(-2)
				for _, m := range g.members {
					switch {
					case !slices.Contains(m.Claims, p):
					case m.ID == id:
						own = m.Generation
					default:
						others = max(others, m.Generation)
					}
				}
				if others > -2 && own <= others {
					t.Fatalf("%s gets %v, which another claims: own %d, others %d", id, p, own, others)
				}
			}
		}
	})
}

func TestTheNewestClaimIsNotInterrupted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGroup(t)
		plan := Assign(g.members, g.counts, g.leads)
		for _, m := range g.members {
			for _, p := range plan.Target[m.ID] {
				newest := slices.Contains(m.Claims, p) && !slices.ContainsFunc(g.members, func(o Member) bool {
					return o.ID != m.ID && slices.Contains(o.Claims, p) && o.Generation >= m.Generation
				})
				if newest && !slices.Contains(plan.Now[m.ID], p) {
					t.Fatalf("%s keeps %v in the end, but loses it for a round", m.ID, p)
				}
			}
		}
	})
}

func TestLoadsAreAsEvenAsSubscriptionsAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGroup(t)
		g.leads = nil
		plan := Assign(g.members, g.counts, g.leads).Target
		n := len(g.members)
		reach := make([][]bool, n) // a partition of the first can make its way to the second
		for i, a := range g.members {
			reach[i] = make([]bool, n)
			for j, b := range g.members {
				reach[i][j] = slices.ContainsFunc(plan[a.ID], func(p Partition) bool { return slices.Contains(b.Topics, p.Topic) })
			}
		}
		for k := range n {
			for i := range n {
				for j := range n {
					reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
				}
			}
		}
		for i, a := range g.members {
			for j, b := range g.members {
				if reach[i][j] && len(plan[a.ID]) > len(plan[b.ID])+1 {
					t.Fatalf("%s has %d, %s has %d and could take some: %v", a.ID, len(plan[a.ID]), b.ID, len(plan[b.ID]), plan)
				}
			}
		}
	})
}

func TestThePlanDoesNotDependOnTheOrderOfItsInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGroup(t)
		want := Assign(g.members, g.counts, g.leads)
		other := rapid.Permutation(g.members).Draw(t, "order")
		for i := range other {
			other[i].Claims = rapid.Permutation(other[i].Claims).Draw(t, "claims")
		}
		if got := Assign(other, g.counts, g.leads); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n%v", want, got)
		}
	})
}

// The protocol is played: members give up what they were not given, and join
// again.
func TestAGroupSettlesInTwoRoundsAndStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGroup(t)
		var plan Plan
		for round := int32(0); ; round++ {
			plan = Assign(g.members, g.counts, g.leads)
			for i := range g.members {
				g.members[i].Claims, g.members[i].Generation = plan.Now[g.members[i].ID], 4+round
			}
			if reflect.DeepEqual(plan.Now, plan.Target) {
				break
			}
			if round == 2 {
				t.Fatalf("not settled after two rounds: %v", plan)
			}
		}
		if again := Assign(g.members, g.counts, g.leads); !reflect.DeepEqual(again.Now, plan.Now) {
			t.Fatalf("settled, and yet moves: %v then %v", plan, again)
		}
	})
}

func TestAFollowerIsWhereItsLeaderIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGroup(t)
		g.leads = func(topic string) string { return map[string]string{"b": "a"}[topic] }
		target := Assign(g.members, g.counts, g.leads).Target
		for _, m := range g.members {
			for _, p := range target[m.ID] {
				if p.Topic != "a" || !slices.Contains(m.Topics, "b") {
					continue
				}
				for i := p.Index; i < g.counts["b"]; i += g.counts["a"] {
					if !slices.Contains(target[m.ID], Partition{"b", i}) {
						t.Fatalf("%s has %v and not b/%d: %v", m.ID, p, i, target)
					}
				}
			}
		}
	})
}

func TestEqualSubscriptionsMoveTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := int32(rapid.IntRange(1, 20).Draw(t, "partitions"))
		members := make([]Member, rapid.IntRange(1, 6).Draw(t, "members"))
		for i := range members {
			members[i] = Member{ID: fmt.Sprint("m", i), Topics: []string{"t"}, Generation: 1}
		}
		for p := range n {
			if o := rapid.IntRange(-1, len(members)-1).Draw(t, "owner"); o >= 0 {
				members[o].Claims = append(members[o].Claims, Partition{"t", p})
			}
		}
		plan, moved := Assign(members, map[string]int32{"t": n}, nil).Target, 0
		var loads []int
		for _, m := range members {
			for _, p := range m.Claims {
				if !slices.Contains(plan[m.ID], p) {
					moved++
				}
			}
			loads = append(loads, len(m.Claims))
		}
		slices.Sort(loads)
		slices.Reverse(loads) // the fullest members keep one more
		least := 0
		for i, load := range loads {
			fair := int(n) / len(members)
			if i < int(n)%len(members) {
				fair++
			}
			least += max(0, load-fair)
		}
		if moved != least {
			t.Fatalf("moved %d, %d would do: %v %v", moved, least, members, plan)
		}
	})
}

// The worst case is one member that has everything when 49 others come.
func BenchmarkAssign1200PartitionsTo50Members(b *testing.B) {
	members := make([]Member, 50)
	for i := range members {
		members[i] = Member{ID: fmt.Sprintf("m%02d", i), Topics: []string{"a", "b"}, Generation: 1}
	}
	for p := range int32(1000) {
		members[0].Claims = append(members[0].Claims, Partition{"a", p})
	}
	for b.Loop() {
		Assign(members, map[string]int32{"a": 1000, "b": 200}, nil)
	}
}

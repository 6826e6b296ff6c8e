package membroker

import (
	"cmp"
	"slices"
)

// group is what the broker knows of one consumer. All of it is guarded by
// Broker.mu.
type group struct {
	b       *Broker
	name    string
	at      map[*partition]int64 // positions
	mark    string
	members []*source            // in the order of joining
	lanes   map[*partition]*lane // owned now, also while draining
}

// rebalance takes partitions from members that have too many and gives free
// ones to those that have too few. A partition that is taken becomes free when
// its drain ends, which calls rebalance again.
func (g *group) rebalance() {
	given := map[*source][]*lane{}
	taken := map[*source][]*lane{}
	for turn, t := range g.topics() {
		members := g.readers(t.name)
		for i, s := range members {
			// The surplus of one topic goes to other members than that of the next.
			quota := len(t.parts) / len(members)
			if (i+turn)%len(members) < len(t.parts)%len(members) {
				quota++
			}
			for _, p := range t.parts {
				l := g.lanes[p]
				if l == nil || l.owner != s || l.life == draining {
					continue
				}
				if quota > 0 {
					quota--
					continue
				}
				l.life = draining
				taken[s] = append(taken[s], l)
			}
			for _, p := range t.parts {
				if quota == 0 {
					break
				}
				if g.lanes[p] == nil {
					quota--
					given[s] = append(given[s], g.give(s, p))
				}
			}
		}
	}
	for _, s := range g.members {
		if len(taken[s]) > 0 {
			s.revoke(taken[s])
		}
		if len(given[s]) > 0 {
			s.assign(given[s])
		}
	}
}

// topics are all that any member reads, source and retry, by name.
func (g *group) topics() []*topic {
	var all []*topic
	for _, s := range g.members {
		for _, name := range s.spec.Topics {
			for _, n := range []string{name, g.b.Destinations(g.name, name).Retry} {
				if t := g.b.topics[n]; t != nil && !slices.Contains(all, t) {
					all = append(all, t)
				}
			}
		}
	}
	slices.SortFunc(all, func(x, y *topic) int { return cmp.Compare(x.name, y.name) })
	return all
}

// readers are the members that read a topic.
func (g *group) readers(name string) []*source {
	var rs []*source
	for _, s := range g.members {
		if _, _, ok := s.reads(name); ok {
			rs = append(rs, s)
		}
	}
	return rs
}

// give makes the lane of a partition that nobody owns.
func (g *group) give(s *source, p *partition) *lane {
	at := max(g.at[p], p.start)
	l := &lane{part: p, owner: s, floor: at, next: at}
	l.Topic, l.Retry, _ = s.reads(p.topic.name)
	l.Partition = p.id
	l.Source = p.topic.source
	l.Mark = g.mark
	l.Backlog = p.end() - l.floor
	s.seen = g.mark
	g.lanes[p] = l
	return l
}

// free ends a lane, so that the partition can be given to somebody else.
func (g *group) free(l *lane) {
	l.life = ended
	l.state, l.again, l.later = nil, nil, nil
	if g.lanes[l.part] == l {
		delete(g.lanes, l.part)
	}
	l.owner.lanes = slices.DeleteFunc(l.owner.lanes, func(x *lane) bool { return x == l })
}

// keep moves the position to where the lane has settled everything.
func (g *group) keep(l *lane) {
	if g.b.answers() && g.lanes[l.part] == l {
		g.at[l.part] = l.floor
	}
}

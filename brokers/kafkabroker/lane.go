package kafkabroker

import (
	"container/heap"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/group"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/position"
)

// life is a lane's stage. It only goes up.
type life uint8

const (
	opening  life = iota // its position is being found
	live                 // deliveries are handed out
	draining             // revoked: settled, but nothing is handed out
	ended                // nothing counts any more
)

// lane is one period of owning one partition. Fields without a word are set
// before it is live; the others are guarded by source.mu.
type lane struct {
	brokers.Lane
	claim  group.Claim // its topic is the one that is read, the retry topic too
	id     cluster.ID  // zero while the cluster does not tell
	origin int32       // partitions of the topic when the group began with it

	life   life
	since  time.Time // when the claim began
	placed bool      // its position is known and committed
	tried  bool      // or its leader could not tell for long
	told   bool      // Assigned was called, so that Revoked or Lost must be
	paused bool
	track  position.Track

	// reading
	next   int64     // the offset to fetch from
	leader int32     // -1 while it is not known
	flying bool      // a fetch is on its way
	idle   bool      // the last fetch brought nothing
	after  time.Time // do not fetch before
	fails  int       // in a row
	held   bool      // a gap: nothing is read
	slabs  []slab    // read and not handed out
	bytes  int       // of slabs
	high   int64     // the last stable offset that was heard of, -1 at first

	// waiting
	later     deferrals
	asking    bool  // deferred deliveries are being read again
	gone      int   // deferred deliveries that the log has no more
	firstGone int64 // the first of them, when there are any

	// committing
	stored group.Position // what the group keeps, as far as is known
	force  bool           // commit although the position did not move
}

// slab is a run of deliveries that were read together.
type slab struct {
	ds []brokers.Delivery
	i  int // the first that is not handed out
}

// put adds deliveries to those at hand.
func (l *lane) put(ds []brokers.Delivery, bytes int) {
	if len(ds) > 0 {
		l.slabs = append(l.slabs, slab{ds: ds})
		l.bytes += bytes
	}
}

// take moves deliveries to out until it has n or bytes are reached.
func (l *lane) take(out []*brokers.Delivery, n, bytes int) (_ []*brokers.Delivery, taken int) {
	for n > 0 && len(l.slabs) > 0 && taken < bytes {
		s := &l.slabs[0]
		for s.i < len(s.ds) && n > 0 && taken < bytes {
			d := &s.ds[s.i]
			s.i++
			n--
			taken += d.Size()
			out = append(out, d)
		}
		if s.i == len(s.ds) {
			l.slabs[0] = slab{}
			l.slabs = l.slabs[1:]
		}
	}
	l.bytes -= taken
	if len(l.slabs) == 0 {
		l.slabs, l.bytes = nil, 0
	}
	return out, taken
}

// drop forgets what was read and not handed out.
func (l *lane) drop() { l.slabs, l.bytes = nil, 0 }

// own makes the deliveries of a slab this lane's, in the order of the log.
func (l *lane) own(ds []brokers.Delivery) {
	for len(ds) > 0 {
		n := min(len(ds), position.MaxSpan)
		span := l.track.Add(n, func(i int) int64 { return ds[i].Offset }, l)
		for i := range n {
			ds[i].Lane, ds[i].Handle = &l.Lane, span
		}
		ds = ds[n:]
	}
}

// deferral is a delivery that was given back: all that is kept of it.
type deferral struct {
	due    time.Time
	offset int64
	span   *position.Span
}

// deferrals is a heap, the earliest first.
type deferrals []deferral

func (d deferrals) Len() int { return len(d) }
func (d deferrals) Less(i, j int) bool {
	return d[i].due.Before(d[j].due) || d[i].due.Equal(d[j].due) && d[i].offset < d[j].offset
}
func (d deferrals) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *deferrals) Push(x any)   { *d = append(*d, x.(deferral)) }
func (d *deferrals) Pop() any {
	old := *d
	x := old[len(old)-1]
	*d = old[:len(old)-1]
	return x
}

func (l *lane) postpone(offset int64, span *position.Span, due time.Time) {
	heap.Push(&l.later, deferral{due: due, offset: offset, span: span})
}

package boltstore

import "time"

// maxRecords is the bound that MaxIndexBytes stands for.
func (s *Store) maxRecords() int { return int(max(s.options.MaxIndexBytes/IndexBytes, 1)) }

// full says that the commit in the making may add no key.
func (b *batch) full() bool { return b.s.index.records+b.added >= b.s.maxRecords() }

// warning is what is needed to say in how many days the store is full. With
// turn.
type warning struct {
	since   time.Time // when counting began
	records int       // then
	next    time.Time // no warning before
}

const (
	warnFrom  = 0.8
	warnEvery = time.Hour
)

// warnFull warns when the bound comes near.
func (s *Store) warnFull() {
	records, bound := s.index.records, s.maxRecords()
	w, now := &s.warned, s.clock.now()
	if w.since.IsZero() {
		w.since, w.records = now, records
	}
	if float64(records) < warnFrom*float64(bound) || now.Before(w.next) {
		return
	}
	w.next = now.Add(warnEvery)
	rest := max(bound-records, 0)
	args := []any{"store", s.path, "records", records, "bound", bound, "max_index_bytes", s.options.MaxIndexBytes}
	if grown, days := records-w.records, now.Sub(w.since).Hours()/24; grown > 0 && days > 0 {
		args = append(args, "days_left", float64(rest)*days/float64(grown))
	}
	if rest == 0 {
		s.log.Error("store is full and takes no new keys: raise Options.MaxIndexBytes or shorten windows", args...)
		return
	}
	s.log.Warn("store is nearly full: raise Options.MaxIndexBytes or shorten windows", args...)
}

package boltstore

import "github.com/onceward/onceward/dedup"

// recent keeps the claims that were written last, so that their completion,
// which mostly follows soon, need not read the file. What is written at a place
// never changes, so it is never out of date.
type recent []recentClaim

type recentClaim struct {
	at  place
	rec dedup.Record
}

// recentClaims is a few batches of them, at 0.7 KB each.
const recentClaims = 2048

func (c recent) get(at place) *dedup.Record {
	if x := &c[at%recentClaims]; x.at == at {
		return &x.rec
	}
	return nil
}

// put takes over plain claims of this opening: those that hold nothing but
// strings.
func (c recent) put(at place, r *dedup.Record) {
	if at != 0 && r.State == dedup.InProgress && r.Live && len(r.Intents) == 0 && len(r.Evidence) == 0 && len(r.Result) == 0 {
		c[at%recentClaims] = recentClaim{at, *r}
	}
}

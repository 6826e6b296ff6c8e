package boltstore

import "github.com/onceward/onceward/dedup"

// recent keeps the entries of the claims that were written last, so that their
// completion, which mostly follows soon, need not look for them in the file.
// What a commit has written at a place never changes. One that fails leaves
// entries here of places that are given out again; nobody asks for a place
// before that.
type recent []recentClaim

type recentClaim struct {
	at  place
	row []byte
}

const (
	// recentClaims is more than the claims and ends in between of a consumer with
	// the usual bound of deliveries in the process.
	recentClaims = 12_288
	// maxRecent bounds what is kept of one: the usual claim takes a tenth.
	maxRecent = 1 << 10
)

// get returns the entry at a place, nil when it is not kept. The row is valid
// until the next put.
func (c recent) get(at place) []byte {
	if x := &c[at%recentClaims]; x.at == at {
		return x.row
	}
	return nil
}

// put takes over what was appended at a place: it keeps the entry of a plain
// claim, and lets go of what a commit that failed has left there.
func (c recent) put(at place, r *dedup.Record, row []byte) {
	x := &c[at%recentClaims]
	switch {
	case r.State == dedup.InProgress && len(r.Intents) == 0 && len(row) <= maxRecent:
		x.at, x.row = at, append(x.row[:0], row...)
	case x.at == at:
		x.at = 0
	}
}

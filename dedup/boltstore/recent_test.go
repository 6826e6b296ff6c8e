package boltstore

import (
	"testing"

	"github.com/onceward/onceward/dedup"
)

// A commit that fails has kept its claims as recent, and its places are given
// out again.
func TestWhatAFailedCommitLeftBehindIsNotReadInPlaceOfWhatCameAfterIt(t *testing.T) {
	s := newStore(t)
	a := apply(t, s, claim("order", 1))[0]
	for no, g := range s.segments {
		s.recent.put(placeOf(no, g.count), &dedup.Record{State: dedup.InProgress}, []byte("what a commit wrote that failed"))
	}
	if a := apply(t, s, success(claim("order", 1), a))[0]; a.Kind != dedup.Done {
		t.Fatalf("end: %+v", a)
	}
	if a := apply(t, s, claim("order", 2))[0]; a.Kind != dedup.DuplicateSucceeded {
		t.Errorf("a repeat is answered %v (%v)", a.Kind, a.Err)
	}
}

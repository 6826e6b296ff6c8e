//go:build servers

package kafkabroker_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup/boltstore"
)

// rival is a second process of the same consumer, with a file of its own.
func (s *shop) rival() *shop {
	s.t.Helper()
	r := newShop(s.t, s.o, 1)
	r.topic, r.name, r.do = s.topic, s.name, s.do
	r.file = filepath.Join(s.t.TempDir(), "rival.db")
	return r
}

// storeID is the identity of the shop's file, which nobody has open.
func (s *shop) storeID() string {
	s.t.Helper()
	store, err := boltstore.Open(s.file, boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	defer store.Close()
	return store.Info().ID
}

// refusal is how a consumer ends that may not work; it must end by itself.
func (s *shop) refusal() error {
	s.t.Helper()
	select {
	case err := <-s.ended:
		s.stop()
		s.stop = nil
		return err
	case <-time.After(20 * time.Second):
		s.t.Fatalf("a consumer with a store of its own goes on: %+v", s.c.Status())
		return nil
	}
}

func (s *shop) wantNames(err error, ids ...string) {
	s.t.Helper()
	if _, ok := errors.AsType[*brokers.StartError](err); !ok {
		s.t.Fatalf("ended with %v, want a StartError", err)
	}
	for _, id := range ids {
		if !strings.Contains(err.Error(), id) {
			s.t.Errorf("store %s is not named: %v", id, err)
		}
	}
}

// wantOnce counts the runs of both together.
func wantOnce(t *testing.T, names []string, shops ...*shop) {
	t.Helper()
	for _, no := range names {
		n := 0
		for _, s := range shops {
			n += len(s.ran(no))
		}
		if n != 1 {
			t.Errorf("%s ran %d times", no, n)
		}
	}
}

func TestASecondStoreInAGroupIsRefusedByNameAndNothingRunsTwice(t *testing.T) {
	for _, partitions := range []int{1, 4} { // with one the second gets none
		t.Run(fmt.Sprint(partitions, " partitions"), func(t *testing.T) {
			t.Parallel()
			s := newShop(t, newOther(t, server(t)), partitions)
			s.do = func(string, int) error { return nil }
			other := s.rival()
			mine, others := s.storeID(), other.storeID()
			names := numbered("o-", 10*partitions)
			// Repeats go to another partition than their first, so that each
			// of the two would get some.
			send := func(turn int) {
				for i := range partitions {
					s.send(int32((i+turn)%partitions), names[10*i:10*(i+1)]...)
				}
			}
			s.open()
			send(0)
			eventually(t, "the orders run", func() bool { return len(s.ran(names[len(names)-1])) == 1 })
			for turn := 1; turn <= 2; turn++ { // a supervisor starts it again
				began := time.Now()
				send(turn)
				other.open()
				s.wantNames(other.refusal(), mine, others)
				t.Logf("refused after %v", time.Since(began).Round(time.Millisecond))
			}
			// The first is not disturbed.
			s.send(0, "later")
			eventually(t, "the first goes on", func() bool { return len(s.ran("later")) == 1 })
			s.close()
			// Nobody is there now, but what the first has done is not known to
			// the other.
			send(3)
			other.open()
			s.wantNames(other.refusal(), mine, others)
			s.open()
			eventually(t, "all is settled", func() bool { return s.o.settled(t, s.name, s.topic, partitions) })
			wantOnce(t, append(names, "later"), s, other)
		})
	}
}

// Neither has left its mark when the other one looks for it.
func TestOfTwoStoresThatStartAtOnceNothingRunsTwice(t *testing.T) {
	for turn := range 3 {
		t.Run(fmt.Sprint(turn), func(t *testing.T) {
			t.Parallel()
			s := newShop(t, newOther(t, server(t)), 2)
			s.do = func(string, int) error { return nil }
			other := s.rival()
			mine, others := s.storeID(), other.storeID()
			names := numbered("o-", 40)
			for p := range int32(2) { // each gets all of them
				s.send(p, names...)
			}
			s.open()
			other.open()
			select {
			case err := <-s.ended:
				s.wantNames(err, mine, others)
				s.stop()
				s.stop = nil
			case err := <-other.ended:
				s.wantNames(err, mine, others)
				other.stop()
				other.stop = nil
			case <-time.After(20 * time.Second):
				t.Fatal("both go on")
			}
			time.Sleep(2 * time.Second) // what the other one does runs beside nobody now
			for _, no := range names {
				if n := len(s.ran(no)) + len(other.ran(no)); n > 1 {
					t.Errorf("%s ran %d times", no, n)
				}
			}
			for _, r := range []*shop{s, other} {
				if r.stop != nil {
					r.stop()
					<-r.ended
					r.stop = nil
				}
			}
		})
	}
}

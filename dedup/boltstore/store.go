package boltstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"sync"

	"github.com/onceward/onceward/dedup"
	bolt "go.etcd.io/bbolt"
)

// Store is a [dedup.Store] in one bbolt file. Make it with [Open].
type Store struct {
	path    string
	options Options
	log     *slog.Logger
	clock   clock
	lock    *fileLock // held from Open to Close, whatever happens to the file's own

	// turn is held by the one who writes: Apply, Sweep, Confirm, Close.
	turn chan struct{}

	// Only with turn.
	state   state
	dict    *dictionary
	current map[uint32]uint32 // class to the segment that takes its entries
	commit  uint64            // the last one of bbolt's that is known to have happened
	file    openedFile
	stale   error // the file must be read again before anything else: why
	arena   arena
	scratch scratch
	recent  recent
	late    []hash // see sweeper
	warned  warning

	// session is the sequence that this opening began with: leases of entries
	// before it are over, because their owner's lock was free.
	session uint64

	// mu guards what readers need. A writer changes it only after its commit.
	mu       sync.RWMutex
	db       *bolt.DB // nil when closed, or when it must be opened again
	closed   bool
	broken   *dedup.DamagedError // found while running; nothing works any more
	doubt    error               // the newest commit may be missing, and nobody has confirmed
	segments map[uint32]*segment // each is replaced, never changed
	words    *dictionary
	prefixes map[lane]int64
	index    *index
	secret   secret
	info     dedup.Info
}

// take waits for the turn to write.
func (s *Store) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) give() { <-s.turn }

// usable says why nothing may be read, if so.
func (s *Store) usable() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.closed:
		return dedup.ErrClosed
	case s.broken != nil:
		return s.broken
	}
	return nil
}

// writable says why nothing may be written, if so; it opens the file again
// after a failure. With turn.
func (s *Store) writable() error {
	if err := s.usable(); err != nil {
		return err
	}
	s.mu.RLock()
	doubt := s.doubt
	s.mu.RUnlock()
	switch {
	case s.options.ReadOnly:
		return fmt.Errorf("%s: %w", s.path, errReadOnly)
	case doubt != nil:
		return s.unconfirmed(doubt)
	case s.stale != nil:
		return s.reopen()
	}
	return nil
}

var errReadOnly = errors.New("store is open for reading only")

func (s *Store) unconfirmed(doubt error) *dedup.DamagedError {
	return &dedup.DamagedError{
		Where: s.path,
		What:  doubt.Error() + ", so that its newest commit may be missing",
		Lost:  "what the last commit recorded: outcomes of operations that would then run again",
		Mend: "let the consumer compare the file with the mark that it keeps at the broker; without one, restore a newer copy, " +
			"or accept the loss by opening it once with Options.Adopt",
	}
}

// damaged is for damage found in a file that was whole when it was opened.
func (s *Store) damaged(what string) *dedup.DamagedError {
	return damage(s.path, what)
}

// damagedAt is for an entry that is not as it was written.
func (s *Store) damagedAt(at place, what any) *dedup.DamagedError {
	return s.damaged(fmt.Sprintf("segment %d, entry %d: %v", at.segment(), at.n(), what))
}

// goneAt is for one that is not there.
func (s *Store) goneAt(at place) *dedup.DamagedError {
	return s.damaged(fmt.Sprintf("segment %d, entry %d is gone", at.segment(), at.n()))
}

// segmentGone is for a segment that is not there.
func (s *Store) segmentGone(no uint32) *dedup.DamagedError {
	return s.damaged(fmt.Sprintf("segment %d is gone", no))
}

func damage(path, what string) *dedup.DamagedError {
	return &dedup.DamagedError{
		Where: path,
		What:  what,
		Lost:  "any of the records in it; nothing is read from it, so that no finished operation is taken for a new one",
		Mend: "stop, keep this file for inspection, and restore the newest copy that opens; what happened since that copy must be " +
			"reconciled, and the consumer takes the copy over with Options.Adopt",
	}
}

// guard runs what touches the file's pages. bbolt panics on damaged ones, and
// reading what the disk no longer gives is a fault of memory: both end the use
// of the file.
func (s *Store) guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = s.breaks(s.damaged(fmt.Sprintf("reading it failed: %v", p)))
		}
	}()
	return f()
}

// breaks makes damage final.
func (s *Store) breaks(d *dedup.DamagedError) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = d
		s.log.Error("store is damaged", "store", s.path, "what", d.What)
	}
	return s.broken
}

// Info is [dedup.Store.Info].
func (s *Store) Info() dedup.Info {
	s.mu.RLock()
	defer s.mu.RUnlock()
	info := s.info
	info.Unconfirmed = s.doubt != nil
	if s.index != nil {
		info.Records = int64(s.index.records)
		info.Full = min(float64(s.index.records)/float64(s.maxRecords()), 1)
	}
	return info
}

// Confirm is [dedup.Confirmer.Confirm]: it compares what the file has with the
// sequence kept elsewhere. A file that is behind takes no write until it is
// opened with [Options.Adopt].
//
// Errors: [*dedup.DamagedError]; [dedup.ErrClosed].
func (s *Store) Confirm(sequence uint64) error {
	s.turn <- struct{}{}
	defer s.give()
	if err := s.usable(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch have := s.info.Sequence; {
	case s.options.Adopt:
	case have < sequence:
		s.doubt = fmt.Errorf("it is at sequence %d, where %d was seen before", have, sequence)
		d := damage(s.path, s.doubt.Error())
		d.Lost = fmt.Sprintf("what was recorded in the last %d commits: operations that would run again", sequence-have)
		d.Mend = "it is an old copy, or its newest commit is damaged: restore a newer one, or reconcile what happened since " +
			"and take the consumer over with Options.Adopt"
		return d
	case s.doubt != nil && sequence == 0:
		return s.unconfirmed(s.doubt)
	}
	if s.doubt != nil {
		s.log.Warn("store is confirmed by its sequence", "store", s.path, "sequence", s.info.Sequence, "seen", sequence, "doubt", s.doubt)
	}
	s.doubt = nil
	return nil
}

// CanEnlist is [dedup.Enlister.CanEnlist]; see [InTx].
func (s *Store) CanEnlist(work any) bool {
	_, ok := work.(func(*bolt.Tx) error)
	return ok
}

// Close waits for calls under way, closes the file and gives up its lock. It
// is idempotent.
func (s *Store) Close() error {
	s.turn <- struct{}{}
	defer s.give()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	db, broken := s.db, s.broken != nil
	s.db, s.index, s.segments, s.words, s.prefixes, s.late = nil, nil, nil, nil, nil, nil
	s.arena, s.scratch, s.recent = arena{}, scratch{}, nil
	s.mu.Unlock()
	var err error
	switch {
	case broken:
		// bbolt may have panicked with its locks held, and would wait for them.
		// Its map of the file stays.
		err = errors.Join(unlock(s.file.f), s.file.f.Close())
	case db != nil:
		err = s.guard(db.Close) // waits for readers
	}
	return errors.Join(err, s.lock.release())
}

func kind(path string) string { return "boltstore " + filepath.Base(path) }

var (
	_ dedup.Store     = (*Store)(nil)
	_ dedup.Confirmer = (*Store)(nil)
	_ dedup.Enlister  = (*Store)(nil)
)

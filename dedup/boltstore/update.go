package boltstore

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/onceward/onceward/dedup"
	bolt "go.etcd.io/bbolt"
)

// errNothing rolls a commit back that has nothing to write.
var errNothing = errors.New("nothing to commit")

// update makes one commit of what f does; works says that f runs work of users'.
// With turn.
//
// The file comes first: only when bbolt says that the commit is on disk do the
// index and all else in memory follow. If we crash between the two, opening
// reads the file. If the commit fails, nothing in memory has changed, and
// whether the file has is found out by looking at it; see failed.
func (s *Store) update(f func(*batch) error, works bool) error {
	var b *batch
	words := len(s.dict.words)
	err := s.transact(func(tx *bolt.Tx) (err error) {
		if b, err = s.begin(tx); err != nil {
			return err
		}
		if err = f(b); err != nil {
			return err
		}
		if !b.dirty {
			return errNothing
		}
		return b.finish()
	}, works)
	if err == nil && s.options.fault != nil {
		err = s.options.fault()
	}
	if err == nil {
		s.install(b)
	}
	s.scratch.trim()
	if err == nil {
		return nil
	}
	s.dict.cut(words)
	s.current = newestOf(s.segments)
	var damage *dedup.DamagedError
	var work *workError
	switch {
	case errors.Is(err, errNothing):
		return nil
	case errors.As(err, &damage):
		return s.breaks(damage)
	case errors.As(err, &work):
		return err
	}
	return s.failed(err)
}

// transact runs f in a transaction of bbolt's.
//
// When bbolt panics in its own commit, nothing more is asked of it: its
// rollback would look for free pages, in a goroutine of its own where nobody
// can recover. Only where users' work runs is db.Update used, which alone keeps
// them from committing.
func (s *Store) transact(f func(*bolt.Tx) error, works bool) error {
	guarded := func(tx *bolt.Tx) error {
		return s.guard(func() error { return f(tx) })
	}
	if works {
		return s.guard(func() error { return s.db.Update(guarded) })
	}
	tx, err := s.beginTx(true)
	if err != nil {
		return err
	}
	if err := guarded(tx); err != nil {
		return errors.Join(err, s.guard(tx.Rollback))
	}
	return s.guard(tx.Commit)
}

// beginTx begins a transaction. That reads a meta page, which may be gone.
func (s *Store) beginTx(writes bool) (tx *bolt.Tx, err error) {
	err = s.guard(func() (err error) {
		tx, err = s.db.Begin(writes)
		return err
	})
	return tx, err
}

// install takes over what a commit has changed.
func (s *Store) install(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.scratch.moved {
		s.index.move(x.h, x.base, x.at)
	}
	for _, g := range b.segments {
		if g.dirty {
			committed := g.segment
			s.segments[g.no] = &committed
		}
	}
	for _, no := range b.dropped {
		delete(s.segments, no)
	}
	maps.Copy(s.prefixes, b.prefixes)
	s.state = b.state
	s.commit++
	s.info.Sequence = b.state.commits
	s.words = s.dict.snapshot()
}

func (d *dictionary) snapshot() *dictionary {
	return &dictionary{words: slices.Clip(d.words), fold: d.fold}
}

// newestOf is the segment of each class that takes its next entries.
func newestOf(segments map[uint32]*segment) map[uint32]uint32 {
	current := make(map[uint32]uint32)
	for no, g := range segments {
		current[g.class] = max(current[g.class], no)
	}
	return current
}

// failed finds out what an unsuccessful commit has left behind. Where the file
// is as it was before, the store goes on with it. Otherwise, such as after a
// sync that failed behind the meta page, nobody knows what the disk holds, and
// the next call reads all of it again.
func (s *Store) failed(err error) error {
	unchanged := false
	if metas, e := s.file.metas(); e == nil {
		m := newest(&metas)
		unchanged = m != nil && m.commit == s.commit
	}
	if tx, e := s.beginTx(false); e != nil {
		unchanged = false // such as when the file could not be mapped again
	} else {
		_ = tx.Rollback()
	}
	if !unchanged {
		s.stale = err
	}
	s.log.Error("commit failed", "store", s.path, "error", err, "read_again", !unchanged)
	return fmt.Errorf("%s: commit: %w", s.path, err)
}

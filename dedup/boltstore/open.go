package boltstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/onceward/onceward/dedup"
	bolt "go.etcd.io/bbolt"
)

// Open opens the store in the file at path, which it makes where there is
// none. It reads and checks the whole file, at some million records a second,
// and holds it until Close: while another process does, Open waits for
// [Options.LockWait] and logs at once who it is. The file may have top-level
// buckets of the user's own beside the store's; see [InTx].
//
// Claims that are in the file and not complete are lapsed: their owner is dead,
// or Open could not have locked the file.
//
// Errors: [ErrLocked]; a [*dedup.DamagedError] that says what may be lost and
// how to go on; one of the file system.
func Open(path string, o Options) (*Store, error) {
	o = o.withDefaults()
	path, err := locate(path)
	if err != nil {
		return nil, fmt.Errorf("store %q: %w", path, err)
	}
	s := &Store{path: path, options: o, log: o.Logger, turn: make(chan struct{}, 1)}
	deadline := time.Now().Add(o.LockWait)
	if !o.ReadOnly {
		if s.lock, err = acquire(path, o.LockWait, s.log); err != nil {
			return nil, err
		}
	}
	if err := s.open(deadline); err != nil {
		return nil, errors.Join(err, s.lock.release())
	}
	return s, nil
}

// locate is the one name of a file, so that two processes which reach it by
// different ones lock the same, and says what cannot be a store before anything
// is made beside it or in its place. It returns path itself with an error.
func locate(path string) (string, error) {
	if path == "" {
		return path, errors.New("path is empty")
	}
	name, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	i, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Lstat(name); err == nil {
			// A new file in the link's place would hide the one behind it, which
			// may be on a volume that is not mounted yet.
			return path, errors.New("symbolic link leads to nothing")
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(name))
		if err != nil {
			return path, err
		}
		return filepath.Join(dir, filepath.Base(name)), nil
	}
	if err != nil {
		return path, err
	}
	if !i.Mode().IsRegular() {
		return path, errors.New("not a regular file")
	}
	if name, err = filepath.EvalSymlinks(name); err != nil {
		return path, err
	}
	return name, nil
}

func (s *Store) open(deadline time.Time) error {
	if i, err := os.Stat(s.path); errors.Is(err, os.ErrNotExist) || err == nil && i.Size() == 0 {
		if s.options.ReadOnly {
			return s.empty()
		}
		if err := create(s.path); err != nil {
			return fmt.Errorf("make %s: %w", s.path, err)
		}
	}
	c, err := s.load(deadline)
	if err != nil {
		return err
	}
	if c.later > 0 && !s.options.Adopt && !s.options.ReadOnly {
		d := s.unconfirmed(c.doubt)
		d.What = fmt.Sprintf("%v, and of what it would open with, sequence %d, there are traces up to %d", c.doubt, c.state.commits, c.later)
		d.Mend = "restore a newer copy, or reconcile what happened last and accept the loss by opening it once with Options.Adopt"
		return errors.Join(d, s.db.Close())
	}
	if c.fresh {
		if c.doubt != nil && !s.options.Adopt {
			return errors.Join(s.unconfirmed(c.doubt), s.db.Close())
		}
		if s.options.ReadOnly {
			return errors.Join(s.empty(), s.db.Close())
		}
		c.state = newState()
		if err := s.db.Update(func(tx *bolt.Tx) error { return makeTables(tx, &c.state) }); err != nil {
			return errors.Join(fmt.Errorf("%s: make the tables: %w", s.path, err), s.db.Close())
		}
		c.commit++
	}
	s.adopt(c)
	s.clock = startClock(c.state.clock)
	s.session = c.state.seq
	s.doubt = c.doubt
	if s.options.Adopt && s.doubt != nil {
		s.log.Warn("store is adopted although its newest commit may be missing", "store", s.path, "doubt", s.doubt)
		s.doubt = nil
	}
	s.info = dedup.Info{
		Kind: kind(s.path), Local: true, ID: c.state.name(), Sequence: c.state.commits, Adopt: s.options.Adopt,
	}
	return nil
}

// empty is why a file without a store is not opened to be read.
func (s *Store) empty() error { return fmt.Errorf("%s: there is no store in this file", s.path) }

// adopt makes what was read from the file what the store knows.
func (s *Store) adopt(c *contents) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.commit, s.dict = c.state, c.commit, &c.words
	s.segments, s.prefixes, s.index, s.words = c.segments, c.prefixes, c.index, c.words.snapshot()
	s.current = newestOf(c.segments)
	s.secret, s.info.Sequence = c.state.secret, c.state.commits
	s.late, s.recent = nil, make(recent, recentClaims)
}

// create makes an empty bbolt file under another name first: a file of this
// name is always whole.
func create(path string) error {
	draft := path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	db, err := bolt.Open(draft, 0o600, &bolt.Options{Timeout: time.Second, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return err
	}
	state := newState()
	err = db.Update(func(tx *bolt.Tx) error { return makeTables(tx, &state) })
	if err = errors.Join(err, db.Close()); err != nil {
		return errors.Join(err, os.Remove(draft))
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncDir(path)
}

func newState() state {
	s := state{format: formatVersion, seq: 1, segment: 1, commits: 1, clock: time.Now().UnixNano()}
	_, _ = rand.Read(s.id[:]) // never fails
	_, _ = rand.Read(s.secret[:])
	return s
}

func makeTables(tx *bolt.Tx, s *state) error {
	top, err := tx.CreateBucket(bucketTop)
	if err != nil {
		return err
	}
	for _, name := range allBuckets {
		if _, err := top.CreateBucket(name); err != nil {
			return err
		}
	}
	return top.Bucket(bucketState).Put(keyState, s.row())
}

// openedFile is the descriptor that bbolt works with.
type openedFile struct{ f *os.File }

func (o openedFile) metas() (m [2]metaPage, err error) {
	i, err := o.f.Stat()
	if err != nil {
		return m, err
	}
	return readMetas(o.f, i.Size()), nil
}

// load checks the file and has bbolt open it. The check comes first, under the
// file's lock, because bbolt trusts what it reads.
func (s *Store) load(deadline time.Time) (c *contents, err error) {
	var checked error
	o := &bolt.Options{
		Timeout:        max(time.Until(deadline), 100*time.Millisecond),
		NoFreelistSync: true, FreelistType: bolt.FreelistMapType, InitialMmapSize: initialMap(), NoStatistics: true,
		ReadOnly: s.options.ReadOnly, NoSync: s.options.noSync,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag&^os.O_CREATE, mode)
			if err != nil {
				return nil, err
			}
			if checked = s.waitFile(f, deadline); checked == nil {
				c, checked = check(s.path, f, s.options.hash)
			}
			if checked != nil {
				return nil, errors.Join(checked, f.Close())
			}
			s.file = openedFile{f}
			return f, nil
		},
	}
	var db *bolt.DB
	err = s.guard(func() (err error) {
		db, err = bolt.Open(s.path, 0o600, o)
		return err
	})
	switch {
	case checked != nil:
		return nil, checked
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", s.path, err)
	}
	s.mu.Lock()
	s.db = db
	s.mu.Unlock()
	return c, nil
}

// waitFile waits for whoever holds the file without holding the lock beside it,
// such as another program that uses bbolt.
func (s *Store) waitFile(f *os.File, deadline time.Time) error {
	try := tryLock
	if s.options.ReadOnly {
		try = tryShare
	}
	for told := false; locksItself; {
		held, err := try(f)
		if err != nil || held {
			return err
		}
		if !time.Now().Before(deadline) {
			return locked(s.path, holder(f), s.options.LockWait)
		}
		if !told {
			told = true
			s.log.Warn("store is held by another process, waiting", "store", s.path, "pid", holder(f), "at_most", s.options.LockWait)
		}
		time.Sleep(lockPoll)
	}
	return nil
}

// check reads all of a file.
func check(path string, f *os.File, fold func(hash) hash) (*contents, error) {
	i, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !i.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	c, err := inspect(f, i.Size(), fold)
	switch {
	case errors.Is(err, errFormat):
		return nil, fmt.Errorf("%s: %w", path, err)
	case err != nil:
		return nil, damage(path, err.Error())
	}
	return c, nil
}

// initialMap is how much address space is reserved, so that the file can grow
// without waiting for readers. It costs no memory; on Windows it would be the
// size of the file.
func initialMap() int {
	if runtime.GOOS == "windows" || ^uint(0)>>32 == 0 {
		return 0
	}
	return 4 << 30
}

// reopen reads the file again after a commit whose outcome is not known. With
// turn.
func (s *Store) reopen() error {
	s.mu.Lock()
	db := s.db
	s.db = nil
	s.mu.Unlock()
	if db != nil {
		// What closing a file with failed writes says is not news.
		_ = s.guard(db.Close)
		dropCache(s.path)
	}
	before := s.state
	c, err := s.load(time.Now().Add(s.options.LockWait))
	var damage *dedup.DamagedError
	switch {
	case errors.As(err, &damage):
		return s.breaks(damage)
	case err != nil:
		return fmt.Errorf("%w; it follows: %w", err, s.stale)
	case c.state.id != before.id || c.state.commits < before.commits:
		return s.breaks(s.damaged(fmt.Sprintf("it has lost commits: it is at sequence %d, where %d was written", c.state.commits, before.commits)))
	}
	// At least all that was acknowledged is there: an invalid meta page is of
	// the commit that failed.
	s.adopt(c)
	s.stale = nil
	s.log.Info("store is read again after a failure", "store", s.path, "sequence", c.state.commits)
	return nil
}

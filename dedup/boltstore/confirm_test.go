package boltstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/dedup"
)

func adopting(o *Options) { o.Adopt = true }

// wantDamage expects a refusal that says what is lost and how to go on.
func wantDamage(t *testing.T, err error, about string) {
	t.Helper()
	var d *dedup.DamagedError
	if !errors.As(err, &d) || !strings.Contains(d.Error(), about) || d.Lost == "" || d.Mend == "" {
		t.Errorf("error %v, want damage about %q", err, about)
	}
}

func TestYesterdaysCopyIsRefusedByItsSequence(t *testing.T) {
	s := newStore(t)
	complete(t, s, 0, 10)
	yesterday := readFile(t, s.path)
	complete(t, s, 10, 10)
	mark := s.Info().Sequence
	if err := s.Confirm(mark); err != nil {
		t.Errorf("the newest file: %v", err)
	}
	old := openAt(t, writeFile(t, yesterday))
	if old.Info().ID != s.Info().ID {
		t.Errorf("a copy has the id %s, the file %s", old.Info().ID, s.Info().ID)
	}
	wantDamage(t, old.Confirm(mark), "sequence")
	_, err := old.Apply(t.Context(), []dedup.Op{claim("15", 1)})
	wantDamage(t, err, "sequence")
	if !old.Info().Unconfirmed {
		t.Error("the copy does not say that it is not confirmed")
	}
	old = again(t, old, adopting)
	if err := old.Confirm(mark); err != nil || !old.Info().Adopt {
		t.Errorf("adopted: %v, %+v", err, old.Info())
	}
	complete(t, old, 20, 1)
}

// invalidate damages the meta page of the newest commit, or of the one before.
func invalidate(t *testing.T, file []byte, newer bool) []byte {
	t.Helper()
	b := append([]byte(nil), used(file)...)
	metas := readMetas(strings.NewReader(string(b)), int64(len(b)))
	at := 0
	if (metas[1].commit > metas[0].commit) == newer {
		at = int(metas[0].page)
	}
	b[at+pageHeader+20] ^= 4
	return b
}

func TestAFileWithOneMetaPageWaitsToBeConfirmed(t *testing.T) {
	s := newStore(t)
	complete(t, s, 0, 10)
	mark := s.Info().Sequence
	file := readFile(t, s.path)

	older := openAt(t, writeFile(t, invalidate(t, file, false)))
	if !older.Info().Unconfirmed {
		t.Error("it does not say that it is not confirmed")
	}
	_, err := older.Apply(t.Context(), []dedup.Op{claim("a", 1)})
	wantDamage(t, err, "meta page")
	_, err = older.Sweep(t.Context(), 1)
	wantDamage(t, err, "meta page")
	wantDamage(t, older.Confirm(0), "meta page") // there is no mark
	if err := older.Confirm(mark); err != nil {
		t.Errorf("not behind: %v", err)
	}
	complete(t, older, 20, 10)
	if older = again(t, older); older.Info().Unconfirmed {
		t.Error("a commit did not mend the meta page")
	}

	behind := writeFile(t, invalidate(t, file, true))
	_, err = Open(behind, Options{Logger: quiet})
	wantDamage(t, err, "traces")
	adopted := openAt(t, behind, adopting)
	complete(t, adopted, 30, 10)
}

func TestADamagedNewFileIsNotTakenForAnEmptyOne(t *testing.T) {
	s := newStore(t)
	file := used(readFile(t, s.path))
	for at := range file {
		if !strings.HasPrefix(string(file[at:]), "onceward") {
			continue
		}
		b := append([]byte(nil), file...)
		b[at]++
		if s, err := Open(writeFile(t, b), Options{Logger: quiet}); err == nil {
			t.Errorf("opened with %d records", s.Info().Records)
			_ = s.Close()
		}
	}
}

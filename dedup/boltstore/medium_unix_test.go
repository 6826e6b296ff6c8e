//go:build unix

package boltstore

import (
	"context"
	"fmt"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/onceward/onceward/dedup"
	"golang.org/x/sys/unix"
)

var _ = role("limit", roleLimit)

// roleLimit fills the disk under its own feet: a limit on the size of files
// has every write behind it fail. It tells what went wrong.
func roleLimit(path string) {
	signal.Ignore(syscall.SIGXFSZ)
	s, err := Open(path, Options{Logger: quiet})
	if err != nil {
		fail(err)
	}
	must := func(what string, ok bool, got any) {
		if !ok {
			fail(fmt.Errorf("%s: %v", what, got))
		}
	}
	ctx := context.Background()
	first := claim("first", 1)
	a, err := s.Apply(ctx, []dedup.Op{first})
	must("claim", err == nil, err)

	var was unix.Rlimit
	must("limit", unix.Getrlimit(unix.RLIMIT_FSIZE, &was) == nil, nil)
	full := was
	full.Cur = 4096 // even the meta pages are behind it
	must("limit", unix.Setrlimit(unix.RLIMIT_FSIZE, &full) == nil, nil)
	end := []dedup.Op{success(first, a[0])}
	for range 3 {
		_, err = s.Apply(ctx, end)
		must("completion on a full disk", err != nil, "no error")
		_, err = s.Apply(ctx, []dedup.Op{claim("second", 2)})
		must("claim on a full disk", err != nil, "no error")
	}
	r, err := s.Lookup(ctx, []dedup.Key{key("first"), key("second")})
	must("lookup on a full disk", err == nil && r[0].State == dedup.InProgress && r[0].Live && r[1].State == dedup.Absent, r)

	must("limit", unix.Setrlimit(unix.RLIMIT_FSIZE, &was) == nil, nil)
	a, err = s.Apply(ctx, append(end, claim("second", 2)))
	must("with the disk back", err == nil && a[0].Kind == dedup.Done && a[1].Kind == dedup.Acquired, fmt.Sprint(a, err))
	must("close", s.Close() == nil, nil)
	fmt.Println("well")
}

func TestADiskThatIsFullIsAnErrorAndTheStoreGoesOnAfterIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "billing.db")
	_, out := process(t, "limit", path)
	if !out.Scan() || out.Text() != "well" {
		t.Fatalf("the process says %q", out.Text())
	}
	s := openAt(t, path)
	if r := lookup(t, s, "first"); r.State != dedup.Succeeded {
		t.Errorf("record %+v", r)
	}
}

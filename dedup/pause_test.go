package dedup_test

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
	"github.com/onceward/onceward/dedup/memstore"
)

func TestAPauseIsSetOnceAndLiftedOnceAndSetAgain(t *testing.T) {
	bolt, err := boltstore.Open(filepath.Join(t.TempDir(), "pause.db"), boltstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer bolt.Close() //nolint:errcheck // of a test
	for name, store := range map[string]dedup.Store{"memstore": memstore.New(), "boltstore": bolt} {
		scopes := []string{"order.create", "*"}
		want := func(scopesPaused ...string) {
			t.Helper()
			pauses, err := dedup.Pauses(t.Context(), store, "billing", scopes)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range pauses {
				if p.Consumer != "billing" || p.Who != "ann" || p.Why != "release" || time.Since(p.Since) > time.Minute {
					t.Errorf("%s: %+v", name, p)
				}
				got = append(got, p.Scope)
			}
			if strings.Join(got, ",") != strings.Join(scopesPaused, ",") {
				t.Errorf("%s: %q are paused, want %q", name, got, scopesPaused)
			}
		}
		does := func(changed bool, err error) func(bool) {
			return func(want bool) {
				t.Helper()
				if err != nil || changed != want {
					t.Errorf("%s: changed %v, %v, want %v", name, changed, err, want)
				}
			}
		}
		all, one := dedup.Pause{Consumer: "billing", Who: "ann", Why: "release"}, dedup.Pause{Consumer: "billing", Scope: "*", Who: "ann", Why: "release"}
		want()
		does(dedup.LiftPause(t.Context(), store, all))(false)
		for range 3 {
			does(dedup.SetPause(t.Context(), store, all))(true)
			does(dedup.SetPause(t.Context(), store, dedup.Pause{Consumer: "billing", Who: "bob"}))(false)
			want("")
			does(dedup.SetPause(t.Context(), store, one))(true)
			want("", "*")
			does(dedup.LiftPause(t.Context(), store, all))(true)
			want("*")
			does(dedup.LiftPause(t.Context(), store, all))(false)
			does(dedup.LiftPause(t.Context(), store, one))(true)
			want()
		}
		if _, err := dedup.SetPause(t.Context(), store, dedup.Pause{Who: "ann"}); err == nil {
			t.Errorf("%s: a pause of no consumer is set", name)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if _, err := dedup.SetPause(t.Context(), store, all); !errors.Is(err, dedup.ErrClosed) {
			t.Errorf("%s: %v, want that it is closed", name, err)
		}
	}
}

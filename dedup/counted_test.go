package dedup_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/onceward/onceward/dedup"
)

// miscounting answers with one thing more than it was asked for, or one less.
type miscounting struct {
	dedup.Store
	by int
}

func (m miscounting) Apply(_ context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	return make([]dedup.Answer, len(ops)+m.by), nil
}

func (m miscounting) Lookup(_ context.Context, keys []dedup.Key) ([]dedup.Record, error) {
	return make([]dedup.Record, len(keys)+m.by), nil
}

func (m miscounting) Letters(_ context.Context, ids []string) ([]dedup.Letter, error) {
	return make([]dedup.Letter, len(ids)+m.by), nil
}

func TestAStoreThatMiscountsIsNotBelieved(t *testing.T) {
	for _, by := range []int{-1, 0, 1} {
		s := miscounting{by: by}
		answers, err := dedup.Apply(t.Context(), s, make([]dedup.Op, 3))
		records, err2 := dedup.Lookup(t.Context(), s, make([]dedup.Key, 3))
		letters, err3 := dedup.Letters(t.Context(), s, make([]string, 3))
		for what, err := range map[string]error{"answers for 3 operations": err, "records for 3 keys": err2, "letters for 3 ids": err3} {
			if by == 0 && err != nil || by != 0 && (err == nil || !strings.Contains(err.Error(), what)) {
				t.Errorf("%d more: %s: %v", by, what, err)
			}
		}
		if by != 0 && len(answers)+len(records)+len(letters) > 0 {
			t.Errorf("%d more: something was handed on", by)
		}
	}
}

func TestDoRunsNothingForAStoreThatMiscounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := false
		_, _, err := dedup.Do(t.Context(), &dedup.Guard{Store: miscounting{by: -1}, Consumer: "c"}, dedup.Key{Scope: "s", ID: "i"},
			func(context.Context) (int, error) { ran = true; return 0, nil })
		if err == nil || ran {
			t.Errorf("ran %v, error %v", ran, err)
		}
	})
}

package boltstore

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedup"
)

func TestAFullStoreTakesNoNewKeysAndGoesOnWithTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newStore(t, func(o *Options) {
			o.noSync, o.MaxIndexBytes, o.Logger = true, 100*IndexBytes, slog.New(slog.NewTextHandler(&log, nil))
		})
		keep(t, s, 0, 50, policy)
		if log.Len() != 0 {
			t.Errorf("it warns when half full: %s", log.String())
		}
		time.Sleep(time.Minute)
		keep(t, s, 50, 40, policy)
		if !strings.Contains(log.String(), "days_left") {
			t.Errorf("it does not warn with the days left: %q", log.String())
		}
		open := claim("open", 1)
		a := apply(t, s, open)[0]
		var ops []dedup.Op
		for i := range 20 {
			ops = append(ops, claim(string(rune('a'+i)), uint64(1000+i)))
		}
		ops = append(ops, claim("7", 2), success(open, a))
		answers := apply(t, s, ops...)
		taken := 0
		for _, a := range answers[:20] {
			switch {
			case a.Kind == dedup.Acquired:
				taken++
			case !errors.Is(a.Err, dedup.ErrFull):
				t.Errorf("answer %+v", a)
			}
		}
		if taken != 9 || s.Info().Full != 1 {
			t.Errorf("%d taken, %+v", taken, s.Info())
		}
		if answers[20].Kind != dedup.DuplicateSucceeded || answers[21].Kind != dedup.Done {
			t.Errorf("known keys are answered %v and %v", answers[20].Kind, answers[21].Kind)
		}
		time.Sleep(2 * time.Hour)
		sweepAll(t, s)
		if a := apply(t, s, claim("after", 3))[0]; a.Kind != dedup.Acquired {
			t.Errorf("after a sweep: %+v", a)
		}
	})
}

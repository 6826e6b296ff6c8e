package consumer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// selection is what a scan is asked for.
type selection struct {
	scope         string
	states        []string
	after, before time.Time
	limit         int64
}

// selectionOf reads the parameters of a scan; known says which names of states
// there are.
func selectionOf(q url.Values, known func(string) error) (s selection, _ *refusal) {
	s = selection{scope: q.Get("scope"), states: q["state"], limit: -1}
	var err error
	for _, state := range s.states {
		if err == nil {
			err = known(state)
		}
	}
	for name, into := range map[string]*time.Time{"completed_after": &s.after, "completed_before": &s.before} {
		if q.Has(name) && err == nil {
			var t adminapi.Time
			if t, err = adminapi.ParseTime(q.Get(name)); err != nil {
				err = fmt.Errorf("%s %w", name, err)
			}
			*into = t.Time()
		}
	}
	if q.Has("limit") && err == nil {
		if s.limit, err = strconv.ParseInt(q.Get("limit"), 10, 64); err != nil || s.limit < 1 {
			err = errors.New("limit must be a number of at least 1")
		}
	}
	if err != nil {
		return s, refuse(http.StatusBadRequest, adminapi.CodeRequest, err.Error())
	}
	return s, nil
}

func (s *selection) record(r *dedup.Record) bool {
	switch {
	case s.scope != "" && r.Key.Scope != s.scope, len(s.states) > 0 && !slices.Contains(s.states, r.State.String()):
		return false
	case !s.after.IsZero() && (r.Finished.IsZero() || r.Finished.Before(s.after)):
		return false
	case !s.before.IsZero() && (r.Finished.IsZero() || !r.Finished.Before(s.before)):
		return false
	}
	return true
}

// scanRecords goes through all records.
func (a *admin) scanRecords(w http.ResponseWriter, r *request) {
	s, refusal := selectionOf(r.URL.Query(), func(name string) error { _, err := adminapi.ParseState(name); return err })
	if refusal != nil {
		refusal.write(w)
		return
	}
	stream(w, r, func(ctx context.Context, l *lines) error {
		for rec, err := range a.c.cfg.Store.Scan(ctx, a.c.cfg.Name) {
			switch {
			case err != nil:
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			case !s.record(&rec):
				continue
			}
			if err := l.record(&rec, r.role); err != nil {
				return err
			}
			if s.limit--; s.limit == 0 {
				return nil
			}
		}
		return nil
	})
}

// scanLetters goes through all notes.
func (a *admin) scanLetters(w http.ResponseWriter, r *request) {
	s, refusal := selectionOf(r.URL.Query(), func(name string) error { _, err := adminapi.ParseLetterState(name); return err })
	if refusal != nil {
		refusal.write(w)
		return
	}
	stream(w, r, func(ctx context.Context, l *lines) error {
		for note, err := range a.c.cfg.Store.ScanLetters(ctx, a.c.cfg.Name) {
			switch {
			case err != nil:
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			case len(s.states) > 0 && !slices.Contains(s.states, note.State.String()):
				continue
			}
			if err := l.letter(&note, r.role); err != nil {
				return err
			}
			if s.limit--; s.limit == 0 {
				return nil
			}
		}
		return nil
	})
}

package consumer

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
func (a *admin) scanRecords(w http.ResponseWriter, r *request) *refusal {
	s, refusal := selectionOf(r.URL.Query(), func(name string) error { _, err := adminapi.ParseState(name); return err })
	if refusal != nil {
		return refusal
	}
	return scan(w, r, a.c.cfg.Name, s.limit, a.c.cfg.Store.Scan, s.record, (*lines).record)
}

// scanLetters goes through all notes.
func (a *admin) scanLetters(w http.ResponseWriter, r *request) *refusal {
	s, refusal := selectionOf(r.URL.Query(), func(name string) error { _, err := adminapi.ParseLetterState(name); return err })
	if refusal != nil {
		return refusal
	}
	wanted := func(note *dedup.Letter) bool {
		return len(s.states) == 0 || slices.Contains(s.states, note.State.String())
	}
	return scan(w, r, a.c.cfg.Name, s.limit, a.c.cfg.Store.ScanLetters, wanted, (*lines).letter)
}

// scan streams what is wanted of a consumer's records or notes, at most limit.
func scan[T any](
	w http.ResponseWriter, r *request, consumer string, limit int64,
	all func(context.Context, string) iter.Seq2[T, error], wanted func(*T) bool, send func(*lines, *T, AdminRole) error,
) *refusal {
	return stream(w, r, func(ctx context.Context, l *lines) error {
		for one, err := range all(ctx, consumer) {
			switch {
			case err != nil:
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			case !wanted(&one):
				continue
			}
			if err := send(l, &one, r.role); err != nil {
				return err
			}
			if limit--; limit == 0 {
				return nil
			}
		}
		return nil
	})
}

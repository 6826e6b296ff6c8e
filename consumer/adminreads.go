package consumer

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// consumer tells what the consumer is and how it fares.
func (a *admin) consumer(w http.ResponseWriter, r *request) *refusal {
	cfg := &a.c.cfg
	status := a.c.Status()
	_, browses := cfg.Broker.(brokers.Browser)
	out := adminapi.Consumer{
		Name: adminapi.Text(cfg.Name), AppVersion: adminapi.Text(cfg.AppVersion), Now: adminapi.Time(time.Now()),
		You:   adminapi.Caller{Who: adminapi.Text(r.who), Role: adminapi.Text(r.role.String())},
		Start: adminapi.Text(cfg.StartFrom.String()), Store: adminapi.OfInfo(cfg.Store.Info()),
		Status: adminapi.Status{
			Live: status.Live, Ready: status.Ready, Unfinished: status.Unfinished, Bytes: status.Bytes, Hung: status.Hung, Lag: status.Lag,
		},
		Limits: adminapi.Limits{
			Workers: cfg.Workers, Unfinished: cfg.Unfinished.Messages, Bytes: cfg.Unfinished.Bytes,
			Lease: adminapi.Duration(cfg.Lease), Drain: adminapi.Duration(cfg.Drain),
		},
		LocalGroup: cfg.AllowLocalInGroup, Browses: browses,
	}
	for _, what := range slices.Sorted(maps.Keys(status.Degraded)) {
		out.Status.Degraded = append(out.Status.Degraded, adminapi.Trouble{What: adminapi.Text(what), Error: adminapi.Text(status.Degraded[what])})
	}
	for _, p := range status.Paused {
		out.Status.Paused = append(out.Status.Paused, adminapi.OfPause(p))
	}
	for _, topic := range cfg.Topics {
		d := cfg.Broker.Destinations(cfg.Name, topic)
		out.Topics = append(out.Topics, adminapi.Topic{Name: adminapi.Text(topic), DeadLetter: adminapi.Text(d.DeadLetter), Retry: adminapi.Text(d.Retry)})
	}
	for i := range a.c.routes {
		out.Routes = append(out.Routes, a.c.routes[i].told())
	}
	return served(w, &out)
}

// figures counts what waits for people.
func (a *admin) figures(w http.ResponseWriter, r *request) *refusal {
	ctx, cancel := context.WithTimeout(r.Context(), callFor)
	defer cancel()
	s, err := a.c.Stats(ctx)
	if err != nil {
		return failed(err)
	}
	out := adminapi.Stats{Open: s.Open, Held: s.Held, Sent: s.Sent, Oldest: adminapi.Time(s.Oldest), Absorbed: s.Absorbed, At: adminapi.Time(s.At)}
	for _, reason := range slices.Sorted(maps.Keys(s.Reasons)) {
		out.Reasons = append(out.Reasons, adminapi.Reason{Name: adminapi.Text(reason), Count: s.Reasons[reason]})
	}
	return served(w, &out)
}

// told is a checked route as an operator sees it.
func (r *Route) told() adminapi.Route {
	return adminapi.Route{
		Scope: adminapi.Text(r.Scope), KeyRule: adminapi.Text(r.ID.Rule), FingerprintRule: adminapi.Text(r.Fingerprint.Rule),
		Window: adminapi.Duration(r.Window), Archive: r.Archive, Timeout: adminapi.Duration(r.Timeout),
		MaxFailures: r.Retry.MaxFailures, MaxLoneCrashes: r.Retry.MaxLoneCrashes, MaxBlocking: adminapi.Duration(r.Retry.MaxBlocking),
		LongestWait: adminapi.Duration(r.Retry.longest()), AllWaits: adminapi.Duration(r.Retry.waits()), HoldKey: r.AfterFailure == HoldKey,
	}
}

// records looks keys up.
func (a *admin) records(w http.ResponseWriter, r *request) *refusal {
	var q adminapi.RecordsRequest
	if refusal := readBody(w, r, &q); refusal != nil {
		return refusal
	}
	keys := make([]dedup.Key, len(q.Keys))
	for i, k := range q.Keys {
		if keys[i] = k.Dedup(); keys[i].Consumer != a.c.cfg.Name {
			return a.foreign(keys[i].Consumer)
		}
	}
	if refusal := tooMany(len(keys), "keys", adminapi.MaxKeys); refusal != nil {
		return refusal
	}
	return stream(w, r, func(ctx context.Context, l *lines) error {
		for some := range slices.Chunk(keys, lookAhead) {
			records, err := dedup.Lookup(ctx, a.c.cfg.Store, some)
			if err != nil {
				return err
			}
			for i := range records {
				if err := l.record(&records[i], r.role); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// lookAhead is how many records are in memory at once: each may have results
// and outcomes of a megabyte.
const lookAhead = 50

// letters looks notes up.
func (a *admin) letters(w http.ResponseWriter, r *request) *refusal {
	var q adminapi.LettersRequest
	if refusal := readBody(w, r, &q); refusal != nil {
		return refusal
	}
	if refusal := tooMany(len(q.IDs), "ids", adminapi.MaxKeys); refusal != nil {
		return refusal
	}
	ids := make([]string, len(q.IDs))
	for i, id := range q.IDs {
		ids[i] = string(id)
	}
	return stream(w, r, func(ctx context.Context, l *lines) error {
		letters, err := dedup.Letters(ctx, a.c.cfg.Store, ids)
		if err != nil {
			return err
		}
		for i := range letters {
			if letters[i].Key.Consumer != a.c.cfg.Name {
				letters[i] = dedup.Letter{ID: letters[i].ID} // none, or another consumer's in a shared store
			}
			if err := l.letter(&letters[i], r.role); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *admin) foreign(consumer string) *refusal {
	return refuse(http.StatusForbidden, adminapi.CodeForbidden, fmt.Sprintf("this is consumer %s, not %s", a.c.cfg.Name, quoteBounded(consumer)))
}

func tooMany(n int, what string, most int) *refusal {
	if n <= most {
		return nil
	}
	return refuse(http.StatusBadRequest, adminapi.CodeRequest, fmt.Sprintf("%d %s in one request, at most %d", n, what, most))
}

// record sends a record, without its token where the role could not use it.
func (l *lines) record(rec *dedup.Record, role AdminRole) error {
	out := adminapi.OfRecord(rec)
	if role < AdminReplay {
		out.Token = adminapi.Token{}
	}
	return l.send(&adminapi.Line{Record: out})
}

// letter sends a note likewise.
func (l *lines) letter(note *dedup.Letter, role AdminRole) error {
	out := adminapi.OfLetter(note)
	if role < AdminReplay {
		out.Token = ""
	}
	return l.send(&adminapi.Line{Letter: out})
}

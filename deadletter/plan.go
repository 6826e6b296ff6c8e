package deadletter

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/onceward/onceward/dedup"
)

// Target is where copies of letters are sent.
type Target string

// The targets.
const (
	// ToRetry is the consumer's own retry topic or stream: nobody else who reads
	// the source sees the message again.
	ToRetry Target = "retry"
	// ToSource is where the message was first published.
	ToSource Target = "source"
)

// Valid says that t is one of the targets.
func (t Target) Valid() bool { return t == ToRetry || t == ToSource }

// Selection is what a plan is to be about.
type Selection struct {
	Filter
	// To is where copies go; default [ToRetry].
	To Target
	// Who plans, and why, each at most 1 KiB; both are kept with each record and
	// letter.
	Who, Why string
	// ExpiresIn is how long the plan may be applied; 1 minute to 30 days,
	// default 24 hours: what it was decided by is looked at again anyway, and a
	// plan that nobody remembers should not be applied.
	ExpiresIn time.Duration
	// AcceptExpired is why letters that are older than the window and have no
	// record are sent all the same, in at most 1 KiB; empty refuses them.
	AcceptExpired string
	// Reading says by which rule [Queue.Read] makes letters, for whoever applies
	// the plan and must read them alike; at most 1 KiB, and nothing here looks
	// into it.
	Reading string
	// Approved are letters, by dl-id, that a person has looked at and that are
	// sent where the table allows it only then.
	Approved []string
}

// Plan is the head of a plan: what it is about and what it comes to. Its
// letters follow it in the file, a line each.
type Plan struct {
	Version  int    `json:"onceward_plan"`
	Job      string `json:"job"`
	Consumer string `json:"consumer"`
	Topic    string `json:"topic"`
	// Identity of the topic, which another of its name does not have; empty
	// where it is not known.
	Identity      string         `json:"topic_identity,omitempty"`
	Store         string         `json:"store"`
	To            Target         `json:"to"`
	Who           string         `json:"who"`
	Why           string         `json:"why"`
	Created       time.Time      `json:"created"`
	Expires       time.Time      `json:"expires"`
	AcceptExpired string         `json:"accept_expired,omitempty"`
	Reading       string         `json:"reading,omitempty"` // see [Selection.Reading]
	WindowSeconds int64          `json:"window_seconds"`
	Letters       int            `json:"letters"`
	Counts        map[Action]int `json:"counts"`
	// Later are operations of the same ids that ran after the message of a
	// letter that would be sent now, the first hundred of LaterCount: sending
	// puts the older one behind the newer one.
	Later      []Later `json:"later,omitempty"`
	LaterCount int     `json:"later_count,omitzero"`
	// Seen is the SHA-256 of what was seen and decided: of this line without it,
	// and of all after it. It tells of accidents, and of nobody who means to
	// change a plan: roles are what bounds him.
	Seen string `json:"seen"`
}

const (
	planVersion  = 1
	maxPlanLine  = 1 << 20
	defaultPlan  = 24 * time.Hour
	longestPlan  = 30 * 24 * time.Hour
	shortestPlan = time.Minute
)

// Plan decides about every letter that sel means and writes the plan to w:
// JSON Lines, the head first. Nothing is changed by it, and nothing is decided
// later: [Queue.Apply] does what the plan says or, where something has changed
// since, nothing.
//
// A plan of all letters has those, too, that are noted and not in the topic any
// more, since its retention has removed them: nobody else would ever say so, and
// their records would be kept for ever.
//
// It goes once through the topic and, where letters are to be sent or the
// queue's Window is not known, once or twice through the store's records; what it
// keeps in memory is about 100 bytes a letter. The lines are put together in a
// temporary file first.
//
// Errors: those of [Queue.Letters]; of w and of the temporary file; a fault of
// sel.
func (q *Queue) Plan(ctx context.Context, sel Selection, w io.Writer) (Plan, error) {
	p, err := q.head(&sel)
	if err != nil {
		return Plan{}, err
	}
	if p.Identity, err = q.identity(ctx); err != nil {
		return Plan{}, err
	}
	window, err := q.shortest(ctx)
	if err != nil {
		return Plan{}, err
	}
	p.WindowSeconds = int64(window / time.Second)
	d, err := newDraft()
	if err != nil {
		return Plan{}, err
	}
	defer d.remove()
	terms := Terms{Now: p.Created, Window: window, AcceptExpired: sel.AcceptExpired != ""}
	keys := sending{since: map[[16]byte]int64{}, scopes: map[string]struct{}{}}
	seen, readable := map[[16]byte]struct{}{}, true
	var source string // of the letters
	for entries, err := range q.chunks(ctx, sel.Filter, seen) {
		if err != nil {
			return Plan{}, err
		}
		records, err := q.records(ctx, entries)
		if err != nil {
			return Plan{}, err
		}
		for i := range entries {
			e, r := &entries[i], &records[i]
			readable = readable && e.Err == nil
			source = cmp.Or(source, q.source(e.Letter.Source.Topic))
			terms.Approved = slices.Contains(sel.Approved, e.Letter.ID)
			decision := Decide(e, r, terms)
			if decision.Action.sends() && !keys.add(e) {
				decision = Decision{Action: Skip, Why: "second letter of its key in this plan"}
			}
			if err := d.add(e, r, decision); err != nil {
				return Plan{}, err
			}
		}
	}
	if err := q.later(ctx, &p, &keys); err != nil {
		return Plan{}, err
	}
	if sel.Filter.all() && readable {
		if err := q.missing(ctx, &p, seen, source, d); err != nil {
			return Plan{}, err
		}
	}
	return p, d.write(&p, w)
}

// head checks sel and begins a plan.
func (q *Queue) head(sel *Selection) (Plan, error) {
	expires := cmp.Or(sel.ExpiresIn, defaultPlan)
	to := cmp.Or(sel.To, ToRetry)
	switch {
	case q.Consumer == "":
		return Plan{}, errors.New("plan: the consumer is missing")
	case !to.Valid():
		return Plan{}, fmt.Errorf("plan: target %q is neither %q nor %q", to, ToRetry, ToSource)
	case expires < shortestPlan || expires > longestPlan:
		return Plan{}, fmt.Errorf("plan: it expires in %v, must be %v to %v", expires, shortestPlan, longestPlan)
	case len(sel.Who) > dedup.MaxError || len(sel.Why) > dedup.MaxError || len(sel.AcceptExpired) > dedup.MaxError || len(sel.Reading) > dedup.MaxError:
		return Plan{}, fmt.Errorf("plan: who, why, accept-expired or reading is longer than %d bytes", dedup.MaxError)
	}
	now := time.Now().UTC()
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	return Plan{
		Version: planVersion, Job: "replay-" + now.Format("20060102T150405Z-") + hex.EncodeToString(random[:]),
		Consumer: q.Consumer, Topic: q.Topic, Store: q.Store.Info().ID, To: to, Who: sel.Who, Why: sel.Why,
		Created: now, Expires: now.Add(expires), AcceptExpired: sel.AcceptExpired, Reading: sel.Reading, WindowSeconds: int64(q.window() / time.Second),
		Counts: map[Action]int{},
	}, nil
}

// shortest is the queue's window or, where nobody has said it, the shortest one
// by which the consumer has made its records.
func (q *Queue) shortest(ctx context.Context) (time.Duration, error) {
	window := q.window()
	if q.Window > 0 {
		return window, nil
	}
	for r, err := range q.Store.Scan(ctx, q.Consumer) {
		if err != nil {
			return 0, err
		}
		if r.Window > 0 && r.Source != (dedup.Position{}) { // what was imported has what was left of its time
			window = min(window, r.Window)
		}
	}
	return window, nil
}

// identity is that of the queue's topic, empty where rights do not allow to see it.
func (q *Queue) identity(ctx context.Context) (string, error) {
	infos, err := q.Broker.Inspect(ctx, []string{q.Topic})
	if err != nil || len(infos) != 1 {
		return "", err
	}
	return infos[0].Identity, nil
}

// records are those of the entries' keys.
func (q *Queue) records(ctx context.Context, entries []Entry) ([]dedup.Record, error) {
	keys := make([]dedup.Key, len(entries))
	for i := range entries {
		keys[i] = entries[i].recordKey(q.Consumer)
	}
	_, records, err := q.know(ctx, nil, keys)
	return records, err
}

// Record is what the store knows of an entry's key or, where it has none, of the
// letter itself, see [dedup.LetterKey]; absent where it knows nothing.
//
// Errors: those of the store.
func (q *Queue) Record(ctx context.Context, e *Entry) (dedup.Record, error) {
	records, err := q.records(ctx, []Entry{*e})
	if err != nil {
		return dedup.Record{}, err
	}
	return records[0], nil
}

package consumer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// resender sends letters back as a replay does, step by step, so that a test
// can stop between two of them.
type resender struct {
	t       *testing.T
	store   dedup.Store
	broker  brokers.Broker
	job     string
	expired bool   // send what has expired
	target  string // where copies go
}

func (r *rig) resender(job string) *resender {
	return &resender{t: r.t, store: r.store.Store, broker: r.broker, job: job, target: r.broker.Destinations("billing", topic).Retry}
}

// resend is all steps.
func (s *resender) resend(m membroker.Message) {
	s.t.Helper()
	copied := s.take(m)
	s.publish(copied)
	s.noted(m)
}

// take holds the letter, with a token, and reopens its record where it has one.
func (s *resender) take(m membroker.Message) brokers.Outgoing {
	s.t.Helper()
	l := decoded(s.t, m)
	note := s.note(l.ID)
	token := deadletter.NewToken(note.Token)
	ops := []dedup.Op{{Kind: dedup.MoveLetter, Key: note.Key, Letter: &dedup.LetterOp{
		Letter: dedup.Letter{ID: l.ID, Job: s.job, Token: token, Expired: s.expired}, From: dedup.LetterOpen, To: dedup.LetterOpen,
	}}}
	records, err := s.store.Lookup(s.t.Context(), []dedup.Key{note.Key})
	if err != nil {
		s.t.Fatal(err)
	}
	if r := records[0]; r.State == dedup.Failed || r.State == dedup.InDoubt || r.State == dedup.Retryable && r.Run == note.Run {
		ops = append(ops, dedup.Op{Kind: dedup.Reopen, Key: note.Key, Operator: &dedup.OperatorOp{
			Seen: dedup.Seen{State: r.State, Run: r.Run, Fence: r.Fence}, Who: "ann", Why: "mended",
			Job: s.job, Letter: l.ID, LetterRun: r.Run, Fingerprint: l.Fingerprint,
		}})
	}
	answers, err := s.store.Apply(s.t.Context(), ops)
	if err != nil {
		s.t.Fatal(err)
	}
	for i, a := range answers {
		if a.Kind != dedup.Done {
			s.t.Fatalf("%s of letter %+v: %v %v", ops[i].Kind, note, a.Kind, a.Err)
		}
	}
	ticket := deadletter.Ticket{ID: l.ID, Token: token, Job: s.job, Count: l.ReplayCount + 1}
	return brokers.Outgoing{Topic: s.target, Key: l.BrokerKey, Value: l.Value, Headers: slices.Concat(l.Headers, ticket.Headers())}
}

func (s *resender) publish(m brokers.Outgoing) {
	s.t.Helper()
	if err := s.broker.Publish(s.t.Context(), []brokers.Outgoing{m})[0]; err != nil {
		s.t.Fatal(err)
	}
}

func (s *resender) noted(m membroker.Message) {
	s.t.Helper()
	l := decoded(s.t, m)
	if _, err := s.store.Apply(s.t.Context(), []dedup.Op{{
		Kind: dedup.SendNoted, Key: s.note(l.ID).Key, Letter: &dedup.LetterOp{Letter: dedup.Letter{ID: l.ID, Job: s.job}},
	}}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *resender) note(id string) dedup.Letter {
	s.t.Helper()
	notes, err := s.store.Letters(s.t.Context(), []string{id})
	if err != nil {
		s.t.Fatal(err)
	}
	return notes[0]
}

// want compares what the store says of a letter.
func (s *resender) want(m membroker.Message, state dedup.LetterState, answer dedup.State) {
	s.t.Helper()
	if n := s.note(decoded(s.t, m).ID); n.State != state || n.Answer != answer {
		s.t.Errorf("letter is %v, answered %v, want %v and %v; %+v", n.State, n.Answer, state, answer, n)
	}
}

func decoded(t *testing.T, m membroker.Message) deadletter.Letter {
	t.Helper()
	l, err := deadletter.Decode(&brokers.Delivery{Key: m.Key, Value: m.Value, Headers: m.Headers})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// letter is the only one, or the last of those there are.
func (r *rig) letter(n int) membroker.Message {
	r.t.Helper()
	letters := r.broker.Letters("billing", topic)
	if len(letters) != n {
		r.t.Fatalf("%d letters, want %d", len(letters), n)
	}
	return letters[n-1]
}

// mendable is a handler that does what a test tells it for the next runs.
type mendable struct {
	counter
	mu sync.Mutex
	do func(ctx context.Context) error
}

func (m *mendable) then(do func(ctx context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.do = do
}

func (m *mendable) fails(err error) { m.then(func(context.Context) error { return err }) }

func (m *mendable) route() consumer.Route {
	route := consumer.JSON("order.create", order.ID, func(ctx context.Context, o order) error {
		m.add(o.No)
		m.mu.Lock()
		do := m.do
		m.mu.Unlock()
		if do == nil {
			return nil
		}
		return do(ctx)
	})
	route.Retry = consumer.Retry{MaxFailures: 2, Initial: time.Second}
	return route
}

// die lets messages die of a handler that refuses them. The consumer goes on.
func (r *rig) die(h *mendable, payloads ...string) {
	r.t.Helper()
	h.fails(consumer.Terminal(errors.New("refused")))
	r.run(h.route())
	r.send(payloads...)
	pass(time.Minute)
}

// stopsAt is a store that does nothing more once it is asked for an operation.
type stopsAt struct {
	dedup.Store
	kind dedup.Kind
	over chan struct{}
	once sync.Once
}

func (s *stopsAt) Apply(ctx context.Context, ops []dedup.Op) ([]dedup.Answer, error) {
	if slices.ContainsFunc(ops, func(op dedup.Op) bool { return op.Kind == s.kind }) {
		s.once.Do(func() { close(s.over) })
	}
	select {
	case <-s.over:
		return nil, errDiskFull
	default:
		return s.Store.Apply(ctx, ops)
	}
}

// mute does not tell of letters.
type mute struct {
	dedup.Store
	mu  sync.Mutex
	err error
}

func (m *mute) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *mute) Letters(ctx context.Context, ids []string) ([]dedup.Letter, error) {
	m.mu.Lock()
	err := m.err
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return m.Store.Letters(ctx, ids)
}

// afterLetters does something once when it has told of letters.
type afterLetters struct {
	dedup.Store
	then func()
	once sync.Once
}

func (s *afterLetters) Letters(ctx context.Context, ids []string) ([]dedup.Letter, error) {
	notes, err := s.Store.Letters(ctx, ids)
	s.once.Do(s.then)
	return notes, err
}

// logged is what a consumer has logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

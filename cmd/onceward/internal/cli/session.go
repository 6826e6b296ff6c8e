package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/cmd/onceward/internal/address"
	"github.com/onceward/onceward/cmd/onceward/internal/via"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
	"github.com/onceward/onceward/internal/adminapi"
)

// needs says what of a session a command uses.
type needs struct {
	letters bool // a broker
	store   bool // a store, not only what an empty one knows
	writes  bool
}

// session is a connection to where letters and records are.
type session struct {
	queue  deadletter.Queue
	via    *via.Client        // nil without --via
	info   *adminapi.Consumer // of --via
	source string             // topic or stream that the consumer reads; may be empty
	who    string
	blind  bool // there is no store: nothing is known but the letters themselves
	file   *boltstore.Store
	// noMarks says why the broker, which is asked for nothing but the consumer's
	// marks, was not reached.
	noMarks error
	closes  []func() error
	// failureless is called with a message that is read as a letter though
	// nothing in it says so.
	failureless func()
}

func (s *session) close() error {
	var err error
	for _, end := range slices.Backward(s.closes) {
		err = errors.Join(err, end())
	}
	return err
}

// open connects. What it has opened when it fails is closed.
func (a *app) open(ctx context.Context, f *connection, n needs) (_ *session, err error) {
	f.environment(a)
	s := &session{who: f.who}
	s.failureless = sync.OnceFunc(func() {
		a.say("careful: %s has messages that say nothing of a failure, and are read as letters all the same: is it a dead-letter topic?", s.queue.Topic)
	})
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	switch {
	case f.both:
		return nil, usage("$ONCEWARD_VIA and $ONCEWARD_STORE are both set, and are two ways to the same records: unset one, or give --via or --store")
	case f.via != "" && f.store != "":
		return nil, usage("--via and --store are two ways to the same records: give one")
	}
	var at *address.Address
	if f.from != "" && (n.letters || f.via == "") {
		if at, err = address.Parse(f.from); err != nil {
			return nil, usage("--from: %w", err)
		}
	}
	if f.via != "" {
		if err := via.CheckAddress(f.via); err != nil {
			return nil, usage("--via: %w", err)
		}
		if err := a.reach(ctx, s, f); err != nil {
			return nil, err
		}
	}
	if n.letters && at == nil && f.via == "" {
		return nil, usage("where are the letters? --from ADDRESS, or --via URL of a running consumer")
	}
	if f.via == "" {
		if err := a.openStore(s, f, n); err != nil {
			return nil, err
		}
	}
	if n.letters {
		if err := a.openLetters(ctx, s, f, at); err != nil {
			return nil, err
		}
	} else if at != nil && s.file != nil && n.writes {
		s.noMarks = s.connect(ctx, at)
	}
	if err := a.whose(ctx, s, f, at, n); err != nil {
		return nil, err
	}
	return s, a.checkMark(ctx, s, n)
}

// with opens a session, and closes it when f has returned.
func (a *app) with(ctx context.Context, f *connection, n needs, do func(context.Context, *session) error) error {
	s, err := a.open(ctx, f, n)
	if err != nil {
		return err
	}
	if err := do(ctx, s); err != nil {
		_ = s.close() // the first error is the one to tell
		return err
	}
	return s.close()
}

// reach connects to a running consumer.
func (a *app) reach(ctx context.Context, s *session, f *connection) error {
	token := strings.TrimSpace(a.Getenv("ONCEWARD_TOKEN"))
	if f.tokenFile != "" {
		text, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	c, err := via.Connect(ctx, f.via, via.Options{Token: token, Who: f.who})
	if err != nil {
		return fmt.Errorf("--via: %w", besides(err, token))
	}
	s.closes = append(s.closes, func() error { c.Close(); return nil })
	info, err := c.Consumer(ctx)
	if err != nil {
		return besides(err, token)
	}
	s.via, s.info, s.who = c, &info, string(info.You.Who)
	s.queue.Store, s.queue.Broker = c, c
	return nil
}

// besides adds to an error of a consumer that was not reached what can be done.
func besides(err error, token string) error {
	switch {
	case errors.Is(err, via.ErrToken) && token == "":
		return fmt.Errorf("%w; give it in $ONCEWARD_TOKEN, or in a file with --token-file", err)
	case errors.Is(err, via.ErrToken):
		return fmt.Errorf("%w; it is that of --token-file, or else of $ONCEWARD_TOKEN", err)
	case errors.Is(err, via.ErrUnreachable):
		return fmt.Errorf("%w; if it is stopped, use --from and --store", err)
	}
	return err
}

// openLetters connects to the broker that has the letters.
func (a *app) openLetters(ctx context.Context, s *session, f *connection, at *address.Address) error {
	if at == nil {
		return s.lettersOf(f)
	}
	return s.connect(ctx, at)
}

// connect connects to the broker at an address.
func (s *session) connect(ctx context.Context, at *address.Address) error {
	connecting, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	b, err := at.Connect(connecting, "onceward-command")
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	s.closes = append(s.closes, b.Close)
	s.queue.Broker, s.queue.Topic = b, at.Topic
	return nil
}

// connectWait is for an address that does not answer.
const connectWait = 15 * time.Second

// lettersOf finds the dead-letter topic of a consumer that was reached.
func (s *session) lettersOf(f *connection) error {
	if !s.info.Browses {
		return errors.New("the consumer's broker cannot be browsed: give --from besides")
	}
	var names []string
	for _, t := range s.info.Topics {
		if f.source == "" && len(s.info.Topics) == 1 || string(t.Name) == f.source {
			s.queue.Topic, s.source = string(t.DeadLetter), string(t.Name)
			return nil
		}
		names = append(names, string(t.Name))
	}
	return usage("--source must be one of the consumer's topics: %s", strings.Join(names, ", "))
}

// window is how long the consumer remembers, as far as is known.
func (s *session) window() time.Duration { return cmp.Or(s.queue.Window, dedup.DefaultWindow) }

// whose finds out which consumer it is about, and how its letters are read.
func (a *app) whose(ctx context.Context, s *session, f *connection, at *address.Address, n needs) error {
	q := &s.queue
	switch {
	case s.info != nil:
		q.Consumer = string(s.info.Name)
		if f.consumer != "" && f.consumer != q.Consumer {
			return fmt.Errorf("%s is consumer %q, not %q", f.via, q.Consumer, f.consumer)
		}
		for _, r := range s.info.Routes {
			if w := time.Duration(r.Window); q.Window == 0 || w < q.Window {
				q.Window = w
			}
		}
	case f.consumer != "":
		q.Consumer = f.consumer
	case at != nil:
		q.Consumer = at.Consumer
	}
	q.Window = cmp.Or(f.window, q.Window)
	if at != nil && s.source == "" {
		s.source = at.Source
	}
	if f.source != "" {
		s.source = f.source
	}
	if !n.letters {
		switch {
		case q.Consumer == "":
			return usage("whose records? --consumer NAME")
		case n.writes && at != nil && at.Consumer != "" && at.Consumer != q.Consumer:
			return usage("--from has letters of consumer %q, not of %q", at.Consumer, q.Consumer)
		}
		return nil
	}
	named := s.info != nil && at == nil || at != nil && at.Named
	if at != nil && !named && f.envelope == "" {
		if err := s.noSource(ctx, at); err != nil {
			return err
		}
	}
	if err := f.reading(s, named); err != nil {
		return err
	}
	if q.Consumer != "" {
		return nil
	}
	if !n.store && !named && f.envelope != string(deadletter.EnvelopeOnceward) {
		return nil // letters of others, looked at before there is a consumer
	}
	owner, err := q.Owner(ctx)
	switch {
	case errors.Is(err, deadletter.ErrNotFound):
		return usage("whose letters are these? --consumer NAME, since %s has none that says so", q.Topic)
	case err != nil:
		return err
	}
	q.Consumer = owner
	return f.reading(s, named)
}

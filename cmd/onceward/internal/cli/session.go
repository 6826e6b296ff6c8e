package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/cmd/onceward/internal/address"
	"github.com/onceward/onceward/cmd/onceward/internal/via"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/boltstore"
	"github.com/onceward/onceward/dedup/memstore"
	"github.com/onceward/onceward/internal/adminapi"
)

// connection is what the flags say of where to look.
type connection struct {
	from, store, via, tokenFile string
	consumer, source            string
	window                      time.Duration
	create                      bool
	who                         string
	envelope, idFrom, scope     string
}

// flags adds those of every command that looks somewhere; letters, those of
// commands about dead letters.
func (f *connection) flags(c *cobra.Command, letters bool) {
	s := c.Flags()
	s.StringVar(&f.store, "store", "", "the consumer's `STORE`: bolt:FILE (default $ONCEWARD_STORE)")
	s.StringVar(&f.via, "via", "", "`URL` at which a running consumer serves consumer.Admin; it has letters and records (default $ONCEWARD_VIA)")
	s.StringVar(&f.tokenFile, "token-file", "", "`file` with the token for --via (default: the token in $ONCEWARD_TOKEN)")
	s.StringVar(&f.consumer, "consumer", "", "`name` of the consumer (default: what the names of topic or letters say)")
	s.StringVar(&f.who, "who", "", "`name` kept with every change; with a token it is the token's (default: you)")
	s.StringVar(&f.from, "from", "", "dead-letter topic, `ADDRESS` (default $ONCEWARD_FROM):\n"+address.Usage)
	s.StringVar(&f.source, "source", "", "`topic` or stream that the consumer reads (default: what the name of the dead-letter topic says)")
	if !letters {
		return
	}
	s.DurationVar(&f.window, "window", 0, "`time` that the consumer's store remembers what is finished (default: what the consumer or its records say, or 336h)")
	s.StringVar(&f.envelope, "envelope", "", "`form` of the letters: auto, onceward, spring, watermill, connect, streams or bare\n(default: onceward where the name of the topic is, else auto)")
	complete(c, "envelope", words(deadletter.Envelopes())...)
	s.StringVar(&f.idFrom, "id-from", "", "`rule` that finds the business id in letters of others: field:PATH, header:NAME or broker-key")
	s.StringVar(&f.scope, "scope", "", "`scope` of the key that --id-from makes")
	s.BoolVar(&f.create, "create", false, "make the file of --store where there is none, for letters of others")
}

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
	closes []func() error
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
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if f.via != "" && f.store != "" {
		return nil, usage("--via and --store are two ways to the same records: give one")
	}
	var at *address.Address
	if f.from != "" && (n.letters || f.via == "") {
		if at, err = address.Parse(f.from); err != nil {
			return nil, usage("--from: %w", err)
		}
	}
	if f.via != "" {
		if err := a.reach(ctx, s, f); err != nil {
			return nil, err
		}
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
	}
	if err := a.whose(ctx, s, f, at, n); err != nil {
		return nil, err
	}
	return s, a.checkMark(ctx, s, n)
}

// environment fills in what flags leave open. Two ways to the same are not
// mixed: who gives one as a flag means that one alone.
func (f *connection) environment(a *app) {
	via, store := f.via != "", f.store != ""
	if f.from == "" && !via {
		f.from = a.Getenv("ONCEWARD_FROM")
	}
	if f.store == "" && !via {
		f.store = a.Getenv("ONCEWARD_STORE")
	}
	if f.via == "" && !store {
		f.via = a.Getenv("ONCEWARD_VIA")
	}
	if f.who == "" {
		f.who = "unknown"
		if u, err := user.Current(); err == nil && u.Username != "" {
			f.who = u.Username
		}
		if host, err := os.Hostname(); err == nil {
			f.who += "@" + host
		}
	}
	f.who = short(f.who, 200)
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
		return fmt.Errorf("--via: %w", err)
	}
	s.closes = append(s.closes, func() error { c.Close(); return nil })
	info, err := c.Consumer(ctx)
	if err != nil {
		return err
	}
	s.via, s.info, s.who = c, &info, string(info.You.Who)
	s.queue.Store, s.queue.Broker = c, c
	return nil
}

// lockWait is for a consumer that is just stopping; one that runs is told of.
const lockWait = time.Second

// openStore opens the file of a consumer that does not run.
func (a *app) openStore(s *session, f *connection, n needs) error {
	if f.store == "" {
		if n.store {
			return usage("the consumer's records are needed: --store bolt:FILE, or --via URL of a running consumer")
		}
		a.say("without --store or --via every letter counts as open, and nothing is known of its key")
		s.queue.Store, s.blind = memstore.New(), true
		return nil
	}
	file, ok := strings.CutPrefix(f.store, "bolt:")
	if !ok || file == "" {
		return usage("--store must be bolt:FILE")
	}
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) && !f.create {
		return fmt.Errorf("--store: there is no file %s; a new one is made with --create, for letters of other software", file)
	}
	log := slog.New(slog.DiscardHandler) // what it has to say comes as an error
	store, err := boltstore.Open(file, boltstore.Options{LockWait: lockWait, ReadOnly: !n.writes && !f.create, Logger: log})
	if err != nil {
		return err
	}
	s.closes = append(s.closes, store.Close)
	s.queue.Store, s.file = store, store
	return nil
}

// checkMark compares a file with what its consumer has left at the broker, as
// the consumer does when it starts: another file, or an old copy of it, would
// decide wrongly about letters.
func (a *app) checkMark(ctx context.Context, s *session, n needs) error {
	if s.file == nil {
		return nil
	}
	fault := errors.New("its consumer's mark lies with the broker, and --from and --source are needed to read it")
	if b, ok := s.queue.Broker.(brokers.MarkBrowser); ok && s.source != "" && s.queue.Consumer != "" {
		var marks []string
		if marks, fault = b.ConsumerMarks(ctx, s.queue.Consumer, []string{s.source}); fault == nil {
			return a.compareMarks(s, marks, n)
		}
	}
	switch {
	case n.writes && s.file.Info().Unconfirmed:
		return fmt.Errorf("the newest commit of this file may be missing: %w", fault)
	case n.writes:
		a.say("not checked: that this file is the one which the consumer used last: %v", fault)
	}
	return nil
}

func (a *app) compareMarks(s *session, marks []string, n needs) error {
	newest, err := consumer.CompareMarks(s.queue.Consumer, s.file.Info(), marks)
	switch {
	case err != nil && n.writes:
		return err
	case err != nil:
		a.say("careful: %v", err)
	case n.writes && s.file.Info().Unconfirmed:
		return s.file.Confirm(newest)
	}
	return nil
}

// openLetters connects to the broker that has the letters.
func (a *app) openLetters(ctx context.Context, s *session, f *connection, at *address.Address) error {
	if at == nil && s.via == nil {
		return usage("where are the letters? --from ADDRESS, or --via URL of a running consumer")
	}
	if at == nil {
		return s.lettersOf(f)
	}
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
	if q.Window = cmp.Or(f.window, q.Window); q.Window < 0 {
		return usage("--window must not be negative")
	}
	if at != nil && s.source == "" {
		s.source = at.Source
	}
	if f.source != "" {
		s.source = f.source
	}
	if !n.letters {
		if q.Consumer == "" {
			return usage("whose records? --consumer NAME")
		}
		return nil
	}
	named := s.info != nil && at == nil || at != nil && at.Named
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

package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/dedup/boltstore"
	"github.com/onceward/onceward/dedup/memstore"
)

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
		made := "a consumer makes it when it starts, or record import with --create"
		if f.mayCreate {
			made = "a new one is made with --create"
		}
		return fmt.Errorf("--store: there is no file %s; %s", file, made)
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
	if s.via != nil {
		return a.checkBroker(ctx, s, n)
	}
	if s.file == nil {
		return nil
	}
	fault := s.noMarks
	if fault == nil {
		fault = errors.New("its consumer's mark lies with the broker, and --from and --source are needed to read it")
	}
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

// checkBroker compares the store of the consumer at --via with what is left at
// the broker of --from: it knows nothing of the letters of another one, where a
// consumer of the same name reads, and would decide wrongly about them.
func (a *app) checkBroker(ctx context.Context, s *session, n needs) error {
	b, ok := s.queue.Broker.(brokers.MarkBrowser) // else there is no --from
	if !ok || s.source == "" || !s.info.Store.Local || s.info.LocalGroup {
		return nil
	}
	marks, err := b.ConsumerMarks(ctx, s.queue.Consumer, []string{s.source})
	if err != nil {
		if n.writes {
			a.say("not checked: that the consumer at --via is the one whose letters --from has: %v", err)
		}
		return nil
	}
	info := s.info.Store.Dedup()
	info.Sequence = math.MaxUint64 // it runs, and writes on
	_, err = consumer.CompareMarks(s.queue.Consumer, info, marks)
	switch {
	case err != nil && n.writes:
		return fmt.Errorf("--from has not the letters of the consumer at --via: %w", err)
	case err != nil:
		a.say("careful: --from has not the letters of the consumer at --via: %v", err)
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

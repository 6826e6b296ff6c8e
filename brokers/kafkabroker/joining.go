package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/group"
)

// leads puts waiting copies where their topic's messages are, so that the load
// of a topic is what is shared evenly, and one process sees both.
func leads(consumer string) func(string) string {
	suffix := "." + consumer + ".retry"
	return func(topic string) string {
		if t, ok := strings.CutSuffix(topic, suffix); ok {
			return t
		}
		return ""
	}
}

// UnhealthyError ends a source whose process says that it is not healthy.
type UnhealthyError struct{ Err error }

func (e *UnhealthyError) Error() string { return "not healthy: " + e.Err.Error() }

func (e *UnhealthyError) Unwrap() error { return e.Err }

func (s *source) healthy() func() error {
	if s.cfg.Healthy == nil {
		return nil
	}
	return func() error {
		if err := s.cfg.Healthy(); err != nil {
			return &UnhealthyError{err}
		}
		return nil
	}
}

// settled hears that a round is over.
func (s *source) settled() {
	s.mu.Lock()
	s.inGroup = true
	s.mu.Unlock()
	s.begun()
}

// begun lets Open return when the first round is over and the position of
// every lane of it is committed, save of those that have no leader now.
func (s *source) begun() {
	s.mu.Lock()
	ok := s.inGroup && !slices.ContainsFunc(s.lanes, func(l *lane) bool { return l.life == opening && !l.placed && !l.tried })
	s.mu.Unlock()
	if ok {
		s.once.Do(func() { close(s.joined) })
	}
}

// start joins, and begins to work when that was answered.
func (s *source) start(ctx context.Context) error {
	go s.events.Run()
	s.workers.Go(func() { s.again(s.pump, s.launch) })
	s.workers.Go(func() { s.again(s.later, s.recall) })
	s.workers.Go(s.watch)
	s.workers.Go(s.saving)
	running, leave := context.WithCancel(context.Background())
	s.leave = leave
	var fatal error
	go func() {
		defer close(s.left)
		if fatal = s.member.Run(running); fatal != nil {
			s.fail(s.refusal(fatal))
		}
	}()
	var err error
	select {
	case <-s.joined:
		return nil
	case <-s.left:
		err = s.refusal(fatal)
	case <-ctx.Done():
		err = ctx.Err()
	}
	gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	s.Close(gone)
	return err
}

// refusal is the start error for a membership that cannot go on.
func (s *source) refusal(err error) error {
	f := &brokers.StartError{What: fmt.Sprintf("be a member of group %q", s.spec.Consumer), Wrong: "refused", Err: err}
	switch {
	case errors.Is(err, group.ErrFenced):
		f.Wrong = fmt.Sprintf("fenced: another process has joined as %q", s.cfg.InstanceID)
		f.Mend = "give each process an InstanceID of its own"
	case errors.As(err, new(*UnhealthyError)):
		f.Wrong = "this process has left the group"
		f.Mend = "restart it"
	case errors.Is(err, kafka.InconsistentGroupProtocol):
		f.Wrong = "its members do not have the cooperative-sticky assignor"
		f.Mend = "stop the other members, or add that assignor to theirs"
	case errors.Is(err, kafka.InvalidSessionTimeout):
		f.Wrong = fmt.Sprintf("the cluster does not allow a SessionTimeout of %v", s.cfg.SessionTimeout)
		f.Mend = "see group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers"
	case errors.Is(err, kafka.GroupAuthorizationFailed):
		f.Wrong = "not authorized"
	}
	return f
}

package group

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
)

// request kinds, for judge.
const (
	joining    = "join"
	syncing    = "sync"
	beating    = "heartbeat"
	committing = "commit"
)

// ErrFenced says that another process took over this one's instance name.
var ErrFenced = errors.New("another process uses this instance name")

// FatalError is a refusal that no retry mends.
type FatalError struct {
	Request string
	Code    kafka.Error
}

func (e *FatalError) Error() string { return fmt.Sprintf("%s refused: %s", e.Request, e.Code.Title()) }

func (e *FatalError) Unwrap() error { return e.Code }

// judge decides what the coordinator's answer means for the membership, once
// for all requests. id and generation are those of the request.
func (m *Member) judge(request string, err error, id string, generation int32) error {
	var code kafka.Error
	if !errors.As(err, &code) {
		return err
	}
	m.mu.Lock()
	current := id == m.id && (generation == m.generation || request == joining)
	// What a heartbeat or a commit hears while a round is under way is about
	// a generation that the round replaces.
	own := current && (!m.joining || request == joining || request == syncing)
	m.mu.Unlock()
	switch code {
	case kafka.FencedInstanceID:
		err = ErrFenced
		m.fail(err)
	case kafka.UnknownMemberId, kafka.IllegalGeneration:
		if own {
			m.lose(err)
		}
	case kafka.RebalanceInProgress:
		if own && request == beating {
			m.request("the group rebalances")
		}
	case kafka.InconsistentGroupProtocol, kafka.InvalidGroupId, kafka.InvalidSessionTimeout, kafka.GroupAuthorizationFailed, kafka.GroupMaxSizeReached:
		err = &FatalError{Request: request, Code: code}
		m.fail(err)
	}
	return err
}

// retriable: the coordinator moved, is loading, is between generations, or was
// not reached.
func retriable(err error) bool {
	var code kafka.Error
	if !errors.As(err, &code) {
		return !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed)
	}
	switch code {
	case kafka.GroupLoadInProgress, kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup, kafka.RebalanceInProgress,
		kafka.BrokerNotAvailable, kafka.RequestTimedOut, kafka.UnknownMemberId, kafka.IllegalGeneration:
		return true
	}
	return false
}

func unknown(err error) bool { return errors.Is(err, kafka.UnknownMemberId) }

// backoff is how long to wait before joining again.
func backoff(last time.Duration, err error) time.Duration {
	if errors.Is(err, kafka.RebalanceInProgress) || errors.Is(err, kafka.MemberIDRequired) {
		return 0
	}
	return min(max(2*last, 50*time.Millisecond), 2*time.Second)
}

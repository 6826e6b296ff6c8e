package consumer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// A local store's identity and sequence are kept where the broker keeps the
// consumer's position, so that a second process with a file of its own, a
// missing file, and a restored copy are noticed before anything runs twice.

const markVersion = "onceward1"

// markOf is the text kept at the broker for a store.
func markOf(info dedup.Info) string {
	return fmt.Sprintf("%s %s %d", markVersion, info.ID, info.Sequence)
}

func parseMark(mark string) (id string, sequence uint64, err error) {
	fields := strings.Fields(mark)
	if len(fields) != 3 || fields[0] != markVersion {
		return "", 0, fmt.Errorf("%q is no mark of this version", mark)
	}
	sequence, err = strconv.ParseUint(fields[2], 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("%q is no mark of this version: %w", mark, err)
	}
	return fields[1], sequence, nil
}

// marked says whether this consumer keeps its store's mark at the broker. A
// store without an identity keeps nothing that could be lost.
func (c *Consumer) marked() bool {
	info := c.cfg.Store.Info()
	return info.Local && info.ID != "" && !c.cfg.AllowLocalInGroup
}

// checkMarks compares the marks found with new lanes to the store.
func (c *Consumer) checkMarks(lanes []*brokers.Lane) error {
	if !c.marked() {
		return c.accept(0)
	}
	var marks []string
	for _, l := range lanes {
		if l.Mark != "" {
			marks = append(marks, l.Mark)
		}
	}
	newest, err := c.compare(marks)
	if err != nil {
		return err
	}
	return c.accept(newest)
}

func (c *Consumer) compare(marks []string) (newest uint64, err error) {
	return CompareMarks(c.cfg.Name, c.cfg.Store.Info(), marks)
}

// CompareMarks compares a local store with the marks that are kept of the
// consumer at its broker (see [brokers.MarkBrowser]), for whoever opens its file
// while it does not run. It returns the newest write of the store that they
// tell of.
//
// Errors: a [*brokers.StartError] where another store was used last, or a newer
// state of this one, or where a mark is of another version.
func CompareMarks(consumer string, info dedup.Info, marks []string) (newest uint64, err error) {
	for _, mark := range marks {
		id, sequence, err := parseMark(mark)
		if err != nil {
			return 0, markFault(consumer, err.Error(), "start with a consumer name of its own, or set AllowLocalInGroup")
		}
		if id != info.ID {
			if info.Adopt {
				continue
			}
			return 0, markFault(consumer, fmt.Sprintf(
				"it was consumed last with store %s, and this process has store %s (%s): what the other has recorded would run again",
				id, info.ID, info.Kind),
				"stop the other process and use its file, share a store between them, or take over on purpose with the store's Adopt option")
		}
		newest = max(newest, sequence)
	}
	if newest > info.Sequence && !info.Adopt {
		return 0, &brokers.StartError{
			What: fmt.Sprintf("consumer %q with store %s (%s)", consumer, info.ID, info.Kind),
			Wrong: fmt.Sprintf("the store is older than what this consumer has acknowledged: it stands at write %d, the broker remembers %d; "+
				"it is a restored copy, and what was recorded since would run again", info.Sequence, newest),
			Mend: "use the newest file, or take over with this one on purpose with the store's Adopt option",
		}
	}
	return newest, nil
}

// accept lets work begin with the store.
func (c *Consumer) accept(newest uint64) error {
	if err := c.confirm(newest); err != nil {
		return err
	}
	c.accepted.Store(true)
	return nil
}

// confirm tells a store whose age is in doubt what the broker remembers.
func (c *Consumer) confirm(sequence uint64) error {
	s, ok := c.cfg.Store.(dedup.Confirmer)
	if !ok || !c.cfg.Store.Info().Unconfirmed {
		return nil
	}
	return s.Confirm(sequence)
}

func markFault(consumer, wrong, mend string) error {
	return &brokers.StartError{
		What:  fmt.Sprintf("consumer %q", consumer),
		Wrong: wrong,
		Mend:  mend,
	}
}

// markError names both stores when another process has left its mark.
func (c *Consumer) markError(err error) error {
	var other *brokers.MarkError
	if !errors.As(err, &other) {
		return err
	}
	info := c.cfg.Store.Info()
	found := other.Found
	if id, _, err := parseMark(found); err == nil {
		found = "store " + id
	}
	return &brokers.StartError{
		What:  fmt.Sprintf("consumer %q with store %s (%s)", c.cfg.Name, info.ID, info.Kind),
		Wrong: fmt.Sprintf("another process consumes as %q with %s: each would run what the other has done", c.cfg.Name, found),
		Mend:  "run one process per local store and consumer, or share a store",
		Err:   err,
	}
}

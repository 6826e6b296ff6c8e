package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/onceward/onceward/deadletter"
)

const (
	// minPrefix is how much of a letter's id names it: eight hexadecimal digits
	// begin one of four billion.
	minPrefix = 8
	wholeID   = 32
)

const prefixHelp = `An ID may be shortened to its first characters, at least 8, as long as no other
letter begins so.`

// longEnough refuses ids that name no letter, such as an empty one of a variable
// that is not set.
func longEnough(ids []string) error {
	for _, id := range ids {
		if len(id) < minPrefix {
			return usage("an ID has at least %d characters, not %q", minPrefix, id)
		}
	}
	return nil
}

// whole are the ids that are meant by ids or what they begin with. What begins
// no letter stays as it is: nothing is found by it. Only a shortened one costs
// anything: notes and topic are gone through for it.
func (s *session) whole(ctx context.Context, ids []string) ([]string, error) {
	found := map[string][]string{}
	for _, id := range ids {
		if len(id) < wholeID {
			found[id] = nil
		}
	}
	if len(found) == 0 {
		return ids, nil
	}
	see := func(id string) {
		for prefix, all := range found {
			if strings.HasPrefix(id, prefix) && !slices.Contains(all, id) {
				found[prefix] = append(all, id)
			}
		}
	}
	if !s.blind {
		for n, err := range s.queue.Store.ScanLetters(ctx, s.queue.Consumer) {
			if err != nil {
				return nil, err
			}
			see(n.ID)
		}
	}
	for e, err := range s.queue.Letters(ctx, deadletter.Filter{States: letterStates}) {
		if err != nil {
			return nil, err
		}
		see(e.Letter.ID)
	}
	out := slices.Clone(ids)
	for i, id := range ids {
		switch all := found[id]; {
		case slices.Contains(all, id):
		case len(all) > 1:
			slices.Sort(all)
			return nil, usage("%q begins several letters: %s", id, strings.Join(all[:min(len(all), 5)], ", "))
		case len(all) == 1:
			out[i] = all[0]
		}
	}
	return out, nil
}

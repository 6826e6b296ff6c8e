package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/onceward/onceward/deadletter"
)

// remedies counts letters that are refused, by what helps.
type remedies struct{ expired, approvable, other int }

func (m *remedies) add(approvable, expired bool) {
	switch {
	case expired:
		m.expired++
	case approvable:
		m.approvable++
	default:
		m.other++
	}
}

// String is what helps each of them; empty where nothing is refused.
func (m *remedies) String() string {
	var all []string
	if m.expired > 0 {
		all = append(all, fmt.Sprintf("%d may have been done, and forgotten: where you know that they were not, apply with --accept-expired --reason TEXT", m.expired))
	}
	if m.approvable > 0 {
		all = append(all, fmt.Sprintf("%d a person may approve: look with onceward dlq show ID, then make a plan with --approve ID, or free what is held with onceward dlq open ID", m.approvable))
	}
	if m.other > 0 {
		all = append(all, fmt.Sprintf("%d no plan sends as they are: onceward dlq show ID says why, onceward dlq resolve ID ends them", m.other))
	}
	return strings.Join(all, "; ")
}

// expiredIn is how many letters a plan refuses since they have expired.
func expiredIn(file io.ReadSeeker) (n int, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	lines := json.NewDecoder(file)
	for {
		var l struct {
			Decision deadletter.Decision `json:"decision"`
		}
		err := lines.Decode(&l)
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return 0, err
		case l.Decision.Action == deadletter.Refuse && l.Decision.Expired:
			n++
		}
	}
}

package deadletter

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"math"
	"time"

	"github.com/onceward/onceward/dedup"
)

// item is one line of a plan.
type item struct {
	ID          string   `json:"id,omitempty"` // dl-id; none where a plan sends messages that are no letters
	At          *Place   `json:"at,omitempty"`
	Scope       string   `json:"scope,omitempty"`
	Key         string   `json:"key,omitempty"`
	Reason      Reason   `json:"reason,omitempty"`
	Decision    Decision `json:"decision"`
	Fingerprint string   `json:"fingerprint,omitempty"`
	Record      seen     `json:"record"`
	Letter      noteSeen `json:"letter"`
	From        *origin  `json:"from,omitempty"`
}

// seen is a record as the plan saw it.
type seen struct {
	State string `json:"state"`
	Run   uint32 `json:"run,omitempty"`
	Fence uint64 `json:"fence,omitempty"`
}

// noteSeen is a letter's note as the plan saw it; without one, Run is the one
// that its note will have.
type noteSeen struct {
	State string `json:"state"`
	Run   uint32 `json:"run,omitempty"`
}

// origin is the message in the source that is sent where there is no letter.
type origin struct {
	Source    string `json:"source"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func seenOf(r *dedup.Record) seen {
	return seen{State: r.State.String(), Run: r.Run, Fence: r.Fence}
}

// is says that r is still what the plan saw.
func (s *seen) is(r *dedup.Record) bool {
	return *s == seenOf(r)
}

// state is the state by its name; a name that is none gives one that nothing has.
func (s *seen) state() dedup.State {
	for state := dedup.Absent; state <= dedup.Tombstone; state++ {
		if state.String() == s.State {
			return state
		}
	}
	return dedup.Tombstone + 1
}

func noteSeenOf(e *Entry) noteSeen {
	s := noteSeen{State: e.Note.State.String(), Run: e.Note.Run}
	if e.Note.State == dedup.LetterNone {
		s.Run = max(e.Letter.Run, 1)
	}
	return s
}

// is says that n is still what the plan saw, or no more than the note that was
// to come: whoever wrote the letter may not have noted it yet, and an application
// that died may have.
func (s *noteSeen) is(n *dedup.Letter) bool {
	switch {
	case n.State == dedup.LetterNone:
		return s.State == n.State.String()
	case s.State == dedup.LetterNone.String():
		return n.State == dedup.LetterOpen && n.Job == "" && n.Run == s.Run
	}
	return s.State == n.State.String() && s.Run == n.Run
}

// sameContent says that the letter is not known to be of other content than fp.
func (it *item) sameContent(fp dedup.Fingerprint) bool {
	own, ok := parseFingerprint(it.Fingerprint)
	return it.Fingerprint == "" || ok && !own.Differs(fp)
}

// key is the item's key; zero without one.
func (it *item) key(consumer string) dedup.Key {
	if it.Key == "" {
		return dedup.Key{}
	}
	return dedup.Key{Consumer: consumer, Scope: it.Scope, ID: it.Key}
}

// recordKey is the key of the item's record.
func (it *item) recordKey(consumer string) dedup.Key {
	if it.Key == "" {
		return dedup.LetterKey(consumer, it.ID)
	}
	return it.key(consumer)
}

// PlanFile is a plan that was read.
type PlanFile struct {
	Plan
	r    io.ReadSeeker
	body int64 // where the items begin
}

// ReadPlan reads a plan and checks that it is whole and unchanged. It reads
// from r later on, too.
//
// Errors: what is wrong with it; those of r.
func ReadPlan(r io.ReadSeeker) (*PlanFile, error) {
	f := &PlanFile{r: r}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(r, 1<<16)
	head, err := readLine(in)
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("plan: the file is empty")
	case err != nil:
		return nil, fmt.Errorf("plan: its first line: %w", err)
	}
	if err := json.Unmarshal(head, &f.Plan); err != nil || f.Version == 0 {
		return nil, errors.New("plan: its first line is not that of a plan")
	}
	switch {
	case f.Version != planVersion:
		return nil, fmt.Errorf("plan: version %d, this release knows %d", f.Version, planVersion)
	case f.Job == "" || f.Consumer == "" || !f.To.Valid() || f.Expires.IsZero():
		return nil, errors.New("plan: its first line lacks job, consumer, target or expiry")
	case f.WindowSeconds < 0 || f.WindowSeconds > math.MaxInt64/int64(time.Second):
		return nil, fmt.Errorf("plan: its window of %d seconds is none", f.WindowSeconds)
	}
	f.body = int64(len(head))
	sum := sha256.New()
	_, _ = sum.Write(bytes.Replace(head, []byte(`"seen":"`+f.Seen+`"`), []byte(`"seen":""`), 1)) // never fails
	n := 0
	for _, err := range f.itemsInto(sum) {
		if err != nil {
			return nil, err
		}
		n++
	}
	if n != f.Letters || hex.EncodeToString(sum.Sum(nil)) != f.Seen {
		return nil, errors.New("plan: it is cut short or was changed: its lines are not those that it was made with")
	}
	return f, nil
}

// readLine returns the next line with its end.
func readLine(in *bufio.Reader) ([]byte, error) {
	var whole []byte
	for {
		part, err := in.ReadSlice('\n')
		if err == nil && whole == nil {
			return part, nil
		}
		whole = append(whole, part...)
		switch {
		case len(whole) > maxPlanLine:
			return nil, fmt.Errorf("a line is longer than %d bytes", maxPlanLine)
		case err == nil:
			return whole, nil
		case errors.Is(err, io.EOF) && len(whole) > 0:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// items yields the plan's items.
func (f *PlanFile) items() iter.Seq2[*item, error] { return f.itemsInto(nil) }

// itemsInto also adds the lines to a sum.
func (f *PlanFile) itemsInto(sum hash.Hash) iter.Seq2[*item, error] {
	return func(yield func(*item, error) bool) {
		if _, err := f.r.Seek(f.body, io.SeekStart); err != nil {
			yield(nil, err)
			return
		}
		in := bufio.NewReaderSize(f.r, 1<<16)
		for n := 1; ; n++ {
			text, err := readLine(in)
			if errors.Is(err, io.EOF) {
				return
			}
			it := new(item)
			if err == nil {
				err = json.Unmarshal(text, it)
			}
			if err == nil && !it.Decision.Action.known() {
				err = fmt.Errorf("its action %.20q is not known to this release", it.Decision.Action)
			}
			if err != nil {
				yield(nil, fmt.Errorf("plan: item %d: %w", n, err))
				return
			}
			if sum != nil {
				_, _ = sum.Write(text) // never fails
			}
			if !yield(it, nil) {
				return
			}
		}
	}
}

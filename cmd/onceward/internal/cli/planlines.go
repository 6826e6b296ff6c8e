package cli

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/onceward/onceward/deadletter"
)

// planLines looks at a plan while it is written: which of the letters that
// somebody named are in it, and why others are not to be sent.
type planLines struct {
	w     io.Writer
	part  []byte // of a line that is not whole
	head  bool   // was seen
	look  bool   // there is something to be found in the lines
	named named
	why   reasons
	// refused letters, by what helps.
	refused remedies
}

func (p *planLines) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.part = append(p.part, b[:n]...)
	rest := p.part
	for {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			break
		}
		p.line(line)
		rest = after
	}
	p.part = append(p.part[:0], rest...)
	return n, err
}

// line looks at one line. Who wrote it is the library, in this process: one that
// cannot be read tells nothing, and whoever applies the plan will refuse it.
func (p *planLines) line(text []byte) {
	if !p.head {
		p.head = true
		var head deadletter.Plan
		p.look = json.Unmarshal(text, &head) == nil &&
			(len(p.named) > 0 || head.Counts[deadletter.Refuse]+head.Counts[deadletter.Skip] > 0)
		return
	}
	if !p.look {
		return
	}
	var l struct {
		ID       string              `json:"id"`
		Decision deadletter.Decision `json:"decision"`
	}
	if json.Unmarshal(text, &l) != nil {
		return
	}
	p.named.see(l.ID)
	if l.Decision.Action == deadletter.Refuse && l.ID != "" {
		p.refused.add(l.Decision.Approvable, l.Decision.Expired)
	}
	if d := l.Decision; d.Action == deadletter.Refuse || d.Action == deadletter.Skip {
		p.why.add(whyNot{Action: d.Action, Why: d.Why, Example: l.ID})
	}
}

package cli

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/onceward/onceward/cmd/onceward/internal/plain"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// show is one letter with all that is known of it.
func (a *app) show() *cobra.Command {
	var f connection
	form := ""
	c := &cobra.Command{
		Use: "show ID", Short: "One letter: its message, its key's record, and what a replay would decide",
		Long:    "One letter: its message, its key's record, and what a replay would decide.\n\n" + prefixHelp,
		Example: "  onceward dlq show 3f2a9c41 --payload json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if _, ok := payloadForms[form]; !ok {
				return usage("--payload must be auto, text, json, hex or none")
			}
			if err := longEnough(args); err != nil {
				return err
			}
			return a.with(c.Context(), &f, needs{letters: true}, func(ctx context.Context, s *session) error {
				ids, err := s.whole(ctx, args)
				if err != nil {
					return err
				}
				l, err := s.look(ctx, ids[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.object(l)
				}
				return a.showLetter(l, payloadForms[form])
			})
		},
	}
	f.flags(c, true)
	c.Flags().StringVar(&form, "payload", "auto", "`form` of the payload: auto, text, json, hex or none; --json has it whole")
	complete(c, "payload", "auto", "text", "json", "hex", "none")
	return meaning(c, "describe", "view", "cat")
}

// letterSeen is a letter as show has it.
type letterSeen struct {
	Letter   letterShown          `json:"letter"`
	Stack    adminapi.Text        `json:"stack,omitzero"`
	Message  messageShown         `json:"message"`
	Record   *adminapi.Record     `json:"record,omitzero"`   // of its key; absent where there is none
	Decision *deadletter.Decision `json:"decision,omitzero"` // absent without a store
	Later    []deadletter.Later   `json:"later,omitzero"`    // operations on the id that ran after it
	// LaterUnknown says that there are too many records to look for those.
	LaterUnknown bool `json:"later_unknown,omitzero"`

	entry  deadletter.Entry
	record dedup.Record
}

// look finds a letter and what is known of it.
func (s *session) look(ctx context.Context, id string) (*letterSeen, error) {
	e, err := s.queue.Find(ctx, id)
	if err != nil {
		return nil, s.notFound(ctx, id, err)
	}
	l := &letterSeen{Letter: s.shown(&e), Stack: adminapi.Text(e.Letter.Stack), Message: messageOf(&e.Letter), entry: e}
	if s.blind {
		return l, nil
	}
	if l.record, err = s.queue.Record(ctx, &e); err != nil {
		return nil, err
	}
	l.Record = recordShown(&l.record)
	d := deadletter.Decide(&e, &l.record, deadletter.Terms{Now: time.Now(), Window: s.window()})
	l.Decision = &d
	looking, cancel := context.WithTimeout(ctx, laterWait)
	defer cancel()
	l.Later, err = s.queue.Later(looking, &e)
	if err != nil && looking.Err() != nil && ctx.Err() == nil {
		l.Later, l.LaterUnknown, err = nil, true, nil
	}
	return l, err
}

// laterWait is how long somebody who looks at one letter waits while all
// records are gone through.
const laterWait = 10 * time.Second

func (a *app) showLetter(l *letterSeen, payload func(io.Writer, []byte)) error {
	e := &l.entry
	f := a.facts()
	f.add("id", e.Letter.ID)
	f.add("state", stateText(e))
	f.add("reason", string(e.Letter.Reason))
	if e.Err != nil {
		f.add("unreadable", e.Err.Error())
	}
	f.add("error", e.Letter.Error)
	f.add("error type", e.Letter.ErrorType)
	f.add("failures", number(e.Letter.Failures))
	f.add("crashes", number(e.Letter.Crashes))
	f.add("first failed", when(e.Letter.FirstFailed))
	f.add("last failed", when(e.Letter.LastFailed))
	f.add("consumer", e.Letter.Consumer)
	f.add("app version", e.Letter.AppVersion)
	f.add("key", keyText(e.Letter.Key))
	f.add("run", number(int(e.Letter.Run)))
	f.add("sent back before", number(e.Letter.ReplayCount))
	f.add("source", sourceText(&e.Letter.Source))
	f.add("source time", when(e.Letter.Source.Time))
	f.add("letter", fmt.Sprintf("%s/%d, offset %d", l.Letter.Topic, e.At.Partition, e.At.Offset))
	f.add("stored", when(e.Stored))
	f.add("trace", e.Letter.Traceparent)
	if l.Decision != nil {
		f.add("replay", decisionText(l.Decision))
	}
	for _, later := range l.Later {
		f.add("ran later", fmt.Sprintf("%s %s, %s, %s", later.Scope, later.ID, later.State, when(later.At)))
	}
	if l.LaterUnknown {
		f.add("ran later", "not known: there are too many records to look through all of them here; a plan does")
	}
	if err := f.flush(); err != nil {
		return err
	}
	if l.Record != nil {
		fmt.Fprintln(a.out, "\nrecord")
		if err := a.recordFacts(&l.record); err != nil {
			return err
		}
	}
	if e.Letter.Stack != "" {
		fmt.Fprintf(a.out, "\nstack\n%s\n", indented(plain.Text(e.Letter.Stack)))
	}
	a.showMessage(&e.Letter, payload)
	return nil
}

func stateText(e *deadletter.Entry) string {
	n, text := &e.Note, e.State().String()
	if e.Forgotten {
		text = "none: its window is over, nobody can tell what became of it"
	}
	switch {
	case n.Job == "":
	case n.State == dedup.LetterOpen:
		text += ", taken by job " + n.Job
	default:
		text += ", job " + n.Job
	}
	switch {
	case n.Answer != dedup.Absent:
		text += fmt.Sprintf(", answered: %s at %s", n.Answer, when(n.Moved))
		if n.Who != "" {
			text += ", sent by " + n.Who
		}
	case n.Who != "":
		text += fmt.Sprintf(", by %s at %s", n.Who, when(n.Moved))
	}
	return said(text, n.Why)
}

// wouldDo is what a replay would do, for people.
var wouldDo = map[deadletter.Action]string{
	deadletter.Reopen:  "would reopen and send",
	deadletter.Send:    "would send",
	deadletter.Resolve: "would resolve, without sending",
	deadletter.Skip:    "would skip",
	deadletter.Refuse:  "would refuse",
}

func decisionText(d *deadletter.Decision) string {
	text := wouldDo[d.Action] + ": " + d.Why
	if d.Approvable {
		text += " (may be approved: plan --approve)"
	}
	if d.Expired {
		text += " (where you know that it was not: apply --accept-expired)"
	}
	return text
}

func (a *app) showMessage(l *deadletter.Letter, payload func(io.Writer, []byte)) {
	fmt.Fprintf(a.out, "\nmessage\n  broker key  %s\n", bytesText(l.BrokerKey))
	for _, h := range l.Headers {
		fmt.Fprintf(a.out, "  header      %s: %s\n", plain.Line(h.Key), bytesText(h.Value))
	}
	switch {
	case l.Pointer:
		fmt.Fprintf(a.out, "  payload     left out for its size, %d bytes, SHA-256 %s\n", l.Size, plain.Line(l.SHA256))
	case l.Value == nil:
		fmt.Fprintln(a.out, "  payload     none (a tombstone)")
	default:
		fmt.Fprintf(a.out, "  payload     %d bytes\n", len(l.Value))
		payload(a.out, l.Value)
	}
}

// bytesText is a key or a header's value on one line.
func bytesText(b []byte) string {
	const most = 1000
	switch {
	case b == nil:
		return "none"
	case utf8.Valid(b):
		return plain.Line(short(string(b), most))
	}
	return fmt.Sprintf("0x%x (%d bytes)", b[:min(len(b), most/2)], len(b))
}

// maxShown is how much of a payload a person is shown.
const maxShown = 64 << 10

var payloadForms = map[string]func(io.Writer, []byte){
	"none": func(io.Writer, []byte) {},
	"hex":  showHex,
	"text": showText,
	"json": showJSON,
	"auto": func(w io.Writer, b []byte) {
		switch {
		case jsontext.Value(b).IsValid():
			showJSON(w, b)
		case utf8.Valid(b):
			showText(w, b)
		default:
			showHex(w, b)
		}
	},
}

func showJSON(w io.Writer, b []byte) {
	v := jsontext.Value(bytes.Clone(b))
	if len(b) > maxShown || v.Indent(jsontext.WithIndent("  ")) != nil {
		showText(w, b)
		return
	}
	showText(w, v)
}

func showText(w io.Writer, b []byte) {
	if len(b) == 0 {
		return
	}
	text, rest := b, 0
	if len(b) > maxShown {
		text, rest = b[:maxShown], len(b)-maxShown
	}
	fmt.Fprintln(w, indented(plain.Text(string(text))))
	more(w, rest)
}

func showHex(w io.Writer, b []byte) {
	shown := b[:min(len(b), maxShown/16)]
	fmt.Fprint(w, hex.Dump(shown))
	more(w, len(b)-len(shown))
}

func more(w io.Writer, rest int) {
	if rest > 0 {
		fmt.Fprintf(w, "  … and %d bytes more; --json has all\n", rest)
	}
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ")
}

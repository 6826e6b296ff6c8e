package deadletter

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// ErrNotLetter says that a message has no dl-version: somebody else wrote it.
var ErrNotLetter = errors.New("message is no dead letter: it has no dl-version header")

// FormatError says what is wrong with a message that claims to be a letter.
type FormatError struct {
	Header string // the header at fault
	Wrong  string // what is wrong with it, without its value
}

func (e *FormatError) Error() string { return "dead letter: header " + e.Header + " " + e.Wrong }

// Decode reads a letter. The names of its headers may be in any case; dl-*
// headers that are not known are ignored, for later versions may add some.
//
// What a letter says is a claim of whoever wrote it: anybody who can publish
// to the dead-letter topic can forge one. Decisions go by the store's record
// and note.
//
// The bytes of the result are those of d and must not be written to.
//
// Errors: [ErrNotLetter]; a [*FormatError] for a header that is missing, occurs
// twice, is too long or cannot be read, and for a version that is not known.
func Decode(d *brokers.Delivery) (Letter, error) {
	var r fields
	if err := r.gather(d.Headers); err != nil {
		return Letter{}, err
	}
	version, ok := r.find(hVersion)
	if !ok {
		return Letter{}, ErrNotLetter
	}
	if version != Version {
		return Letter{}, &FormatError{Header: hVersion, Wrong: "is not " + Version + ": a newer release wrote this letter, or nobody's"}
	}
	l := Letter{
		ID:          r.text(hID, dedup.MaxLetterID, true),
		Consumer:    r.text(hConsumer, dedup.MaxScope, true),
		Reason:      r.reason(),
		Error:       r.line(hError, MaxError),
		ErrorType:   r.line(hErrorType, maxName),
		Stack:       unescapeLines(r.line(hStack, MaxStack)),
		Failures:    int(r.number(hFailures, math.MaxInt32, false)),
		Crashes:     int(r.number(hCrashes, math.MaxInt32, false)),
		FirstFailed: r.time(hFirstFailed),
		LastFailed:  r.time(hLastFailed),
		Run:         uint32(r.number(hRun, math.MaxUint32, false)),
		Fingerprint: r.fingerprint(),
		Source:      r.source(),
		AppVersion:  r.line(hAppVersion, maxName),
		Traceparent: r.line(hTraceparent, maxName),
		ReplayJob:   r.line(hReplayJob, maxName),
		ReplayCount: int(r.number(hReplayCount, math.MaxInt32, false)),
		BrokerKey:   d.Key,
		Value:       d.Value,
	}
	r.key(&l)
	r.pointer(&l)
	if r.err != nil {
		return Letter{}, r.err
	}
	if r.own < len(d.Headers) {
		l.Headers = make([]brokers.Header, 0, len(d.Headers)-r.own)
		for _, h := range d.Headers {
			if !IsOwnHeader(h.Key) {
				l.Headers = append(l.Headers, h)
			}
		}
	}
	return l, nil
}

// fields are the known headers of a letter, and the first fault among them.
type fields struct {
	values [len(names)][]byte
	there  [len(names)]bool
	own    int // headers that begin with dl-
	err    error
}

func (r *fields) gather(headers []brokers.Header) error {
	for _, h := range headers {
		if !IsOwnHeader(h.Key) {
			continue
		}
		r.own++
		for i, name := range names {
			if len(h.Key) != len(name) || !strings.EqualFold(h.Key, name) {
				continue
			}
			switch {
			case r.there[i]:
				return &FormatError{Header: name, Wrong: "occurs twice"}
			case len(h.Value) > MaxHeaders:
				return &FormatError{Header: name, Wrong: fmt.Sprintf("is %d bytes, all of them may be %d", len(h.Value), MaxHeaders)}
			}
			r.there[i], r.values[i] = true, h.Value
			break
		}
	}
	return nil
}

func (r *fields) find(name string) (string, bool) {
	for i := range names {
		if names[i] == name {
			return string(r.values[i]), r.there[i]
		}
	}
	return "", false
}

func (r *fields) wrong(name, what string) {
	if r.err == nil {
		r.err = &FormatError{Header: name, Wrong: what}
	}
}

// text reads an exact text.
func (r *fields) text(name string, most int, must bool) string {
	raw, there := r.find(name)
	if !there || raw == "" {
		if must {
			r.wrong(name, "is missing")
		}
		return ""
	}
	text, err := parseExact(raw)
	switch {
	case err != nil:
		r.wrong(name, err.Error())
		return ""
	case len(text) > most:
		r.wrong(name, fmt.Sprintf("is %d bytes, at most %d", len(text), most))
		return ""
	}
	return text
}

// line reads a text for people: one clean line.
func (r *fields) line(name string, most int) string {
	text, _ := r.find(name)
	switch {
	case len(text) > most:
		r.wrong(name, fmt.Sprintf("is %d bytes, at most %d", len(text), most))
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return !strconv.IsPrint(c) }):
		r.wrong(name, "is not one line of clean text")
	default:
		return text
	}
	return ""
}

func (r *fields) number(name string, most int64, must bool) int64 {
	text, there := r.find(name)
	if !there {
		if must {
			r.wrong(name, "is missing")
		}
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		r.wrong(name, fmt.Sprintf("is not a number of 0 to %d", most))
		return 0
	}
	return n
}

func (r *fields) time(name string) time.Time {
	text, there := r.find(name)
	if !there {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || len(text) > 40 {
		r.wrong(name, "is not a time of RFC 3339")
		return time.Time{}
	}
	return t.UTC()
}

func (r *fields) reason() Reason {
	text, there := r.find(hReason)
	if !there {
		r.wrong(hReason, "is missing")
		return ""
	}
	reason := Reason(text)
	if !reason.Valid() {
		r.wrong(hReason, "is none of the known reasons")
		return ""
	}
	return reason
}

func (r *fields) fingerprint() dedup.Fingerprint {
	text, there := r.find(hFingerprint)
	fp, ok := parseFingerprint(text)
	if there && !ok {
		r.wrong(hFingerprint, "is not the number of a rule, a colon and 64 hexadecimal digits")
	}
	return fp
}

// parseFingerprint reads what formatFingerprint wrote; zero for anything else.
func parseFingerprint(text string) (fp dedup.Fingerprint, ok bool) {
	rule, digits, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(rule, 10, 32)
	sum, err2 := hex.DecodeString(digits)
	if err != nil || err2 != nil || n == 0 || len(sum) != len(fp.Sum) {
		return fp, false
	}
	return dedup.Fingerprint{Rule: uint32(n), Sum: [32]byte(sum)}, true
}

func (r *fields) source() Source {
	s := Source{
		Identity: r.text(hIdentity, maxIdentity, false),
		Time:     r.time(hTime),
	}
	_, kafka := r.find(hTopic)
	_, s.JetStream = r.find(hStream)
	switch {
	case kafka && s.JetStream:
		r.wrong(hStream, "stands beside "+hTopic+": a message has one source")
	case s.JetStream:
		s.Topic = r.text(hStream, maxSubject, true)
		s.Subject = r.text(hSubject, maxSubject, false)
		s.Offset = r.number(hSequence, math.MaxInt64, true)
	default:
		s.Topic = r.text(hTopic, maxSubject, true)
		s.Partition = int32(r.number(hPartition, math.MaxInt32, true))
		s.Offset = r.number(hOffset, math.MaxInt64, true)
	}
	return s
}

func (r *fields) key(l *Letter) {
	_, scope := r.find(hScope)
	_, id := r.find(hKey)
	switch {
	case scope && id:
		l.Key = dedup.Key{Consumer: l.Consumer, Scope: r.text(hScope, dedup.MaxScope, true), ID: r.text(hKey, dedup.MaxID, true)}
		if err := l.Key.Validate(); err != nil && r.err == nil {
			r.wrong(hKey, "is no key: "+err.Error())
		}
	case scope || id:
		r.wrong(hKey, "and "+hScope+" must stand together")
	}
}

func (r *fields) pointer(l *Letter) {
	omitted, there := r.find(hPointer)
	if !there {
		return
	}
	if omitted != "value" && omitted != "value headers" && omitted != "value key" && omitted != "value headers key" {
		r.wrong(hPointer, "does not say what is left out")
		return
	}
	l.Pointer, l.omitted, l.Value = true, omitted, nil
	l.SHA256, _ = r.find(hSHA256)
	if sum, err := hex.DecodeString(l.SHA256); err != nil || len(sum) != 32 || l.SHA256 != strings.ToLower(l.SHA256) {
		r.wrong(hSHA256, "is not 64 hexadecimal digits")
	}
	l.Size = int(r.number(hSize, math.MaxInt32, true))
}

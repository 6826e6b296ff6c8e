package deadletter

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// Version is what dl-version says of letters written here.
const Version = "1"

// Limits on a letter's own headers, names and values together.
const (
	MaxHeaders = 8 << 10 // bytes of all of them
	MaxError   = 1 << 10 // bytes of dl-error
	MaxStack   = 4 << 10 // bytes of dl-stack

	maxName     = 256     // bytes of dl-error-type, dl-app-version, dl-traceparent, dl-replay-job
	maxSubject  = 2 << 10 // a longer subject is left out
	maxIdentity = 512     // a longer identity is left out

	// A pointer letter keeps headers and key of the original up to these.
	maxPointerHeaders = 4 << 10
	maxPointerKey     = 1 << 10
)

// Encode returns the message that is the letter, for the given dead-letter
// topic or subject. Key, value and headers of the original stay byte for byte,
// and the letter's own headers come after them.
//
// Those keep to [MaxHeaders]: where they would not, the stack is left out
// first, then the error text is cut. The payload is never touched. Encoding
// the same letter again gives the same bytes.
func Encode(l Letter, topic string) brokers.Outgoing {
	return brokers.Outgoing{
		Topic: topic, ID: publishID(&l), Key: l.BrokerKey, Value: l.Value,
		Headers: append(original(l.Headers), ownHeaders(&l)...),
	}
}

// publishID makes a repeat of the publish harmless, and nothing else: a letter
// without a key keeps its id when a copy of it dies too, and a broker that knows
// ids would drop the new one.
func publishID(l *Letter) string {
	if l.Key.ID != "" || l.Run <= 1 {
		return l.ID
	}
	return l.ID + "-" + strconv.FormatUint(uint64(l.Run), 10)
}

// Pointer returns a letter in place of one that the broker refused for its
// size: where the message lies and the SHA-256 and size of its payload. Headers
// and key of the original are kept while they are small (4 KiB and 1 KiB).
// dl-pointer names what was left out.
//
// The payload is empty, not nil: a nil one would delete by its key where the
// dead-letter topic is compacted.
func Pointer(l Letter, topic string) brokers.Outgoing {
	if !l.Pointer {
		sum := sha256.Sum256(l.Value)
		l.Pointer, l.SHA256, l.Size = true, hex.EncodeToString(sum[:]), len(l.Value)
	}
	l.Value = []byte{}
	l.omitted = "value"
	size := 0
	for _, h := range l.Headers {
		size += len(h.Key) + len(h.Value)
	}
	if size > maxPointerHeaders {
		l.Headers, l.omitted = nil, l.omitted+" headers"
	}
	if len(l.BrokerKey) > maxPointerKey {
		l.BrokerKey, l.omitted = nil, l.omitted+" key"
	}
	return Encode(l, topic)
}

// IsOwnHeader says that a header is one of onceward's: its name begins with
// dl-, in any case, since brokers and proxies are known to change it.
func IsOwnHeader(name string) bool {
	return len(name) >= 3 && name[0]|0x20 == 'd' && name[1]|0x20 == 'l' && name[2] == '-'
}

// original returns a copy of headers without any dl-*, with room for more.
func original(headers []brokers.Header) []brokers.Header {
	kept := make([]brokers.Header, 0, len(headers)+len(names))
	for _, h := range headers {
		if !IsOwnHeader(h.Key) {
			kept = append(kept, h)
		}
	}
	return kept
}

// own gathers a letter's own headers and what they weigh.
type own struct {
	headers []brokers.Header
	size    int
}

func (o *own) add(name, value string) {
	if value == "" {
		return
	}
	o.headers = append(o.headers, brokers.Header{Key: name, Value: []byte(value)})
	o.size += len(name) + len(value)
}

func (o *own) number(name string, n int64) { o.add(name, strconv.FormatInt(n, 10)) }

func (o *own) count(name string, n int) {
	if n > 0 {
		o.number(name, int64(n))
	}
}

func (o *own) time(name string, t time.Time) {
	if t = t.UTC(); !t.IsZero() && t.Year() >= 0 && t.Year() <= 9999 {
		o.add(name, t.Format(time.RFC3339Nano))
	}
}

func ownHeaders(l *Letter) []brokers.Header {
	var o own
	o.headers = make([]brokers.Header, 0, len(names))
	o.add(hVersion, Version)
	o.add(hID, exact(l.ID))
	o.add(hConsumer, exact(l.Consumer))
	o.add(hReason, line(string(l.Reason), maxName))
	o.add(hErrorType, line(l.ErrorType, maxName))
	o.count(hFailures, l.Failures)
	o.count(hCrashes, l.Crashes)
	o.time(hFirstFailed, l.FirstFailed)
	o.time(hLastFailed, l.LastFailed)
	if l.Key.ID != "" {
		o.add(hScope, exact(l.Key.Scope))
		o.add(hKey, exact(l.Key.ID))
	}
	if l.Run > 0 {
		o.number(hRun, int64(l.Run))
	}
	if l.Fingerprint.Rule != 0 {
		o.add(hFingerprint, formatFingerprint(l.Fingerprint))
	}
	o.source(&l.Source)
	o.add(hAppVersion, line(l.AppVersion, maxName))
	o.add(hTraceparent, line(l.Traceparent, maxName))
	o.add(hReplayJob, line(l.ReplayJob, maxName))
	o.count(hReplayCount, l.ReplayCount)
	if l.Pointer {
		o.add(hPointer, l.omitted)
		o.add(hSHA256, l.SHA256)
		o.number(hSize, int64(l.Size))
	}

	// What is for people only takes the room that is left: the error text
	// before the stack.
	room := MaxHeaders - o.size
	o.add(hError, line(l.Error, min(MaxError, room-len(hError))))
	room = MaxHeaders - o.size
	if stack := stackLine(l.Stack); len(hStack)+len(stack) <= room {
		o.add(hStack, stack)
	}
	return o.headers
}

func formatFingerprint(fp dedup.Fingerprint) string {
	return strconv.FormatUint(uint64(fp.Rule), 10) + ":" + hex.EncodeToString(fp.Sum[:])
}

func (o *own) source(s *Source) {
	if s.JetStream {
		o.add(hStream, exact(s.Topic))
		if len(s.Subject) <= maxSubject {
			o.add(hSubject, exact(s.Subject))
		}
		o.number(hSequence, s.Offset)
	} else {
		o.add(hTopic, exact(s.Topic))
		o.number(hPartition, int64(s.Partition))
		o.number(hOffset, s.Offset)
	}
	if len(s.Identity) <= maxIdentity {
		o.add(hIdentity, exact(s.Identity))
	}
	o.time(hTime, s.Time)
}

// stackLine is a stack as one line of at most MaxStack bytes. Whole lines are
// kept from the top, where the panic is; empty ones at either end are not.
func stackLine(stack string) string {
	if len(stack) > MaxStack {
		stack = stack[:MaxStack]
	}
	var b strings.Builder
	empty := 0 // lines since the last that was written
	for l := range strings.Lines(stack) {
		text := strings.TrimRight(l, "\r\n")
		indent := len(text) - len(strings.TrimLeft(text, "\t"))
		text = escapeLines(strings.Repeat("\t", indent) + line(text, MaxStack))
		if text == "" {
			empty++
			continue
		}
		if b.Len() > 0 {
			text = strings.Repeat(escapeLines("\n"), empty+1) + text
		}
		empty = 0
		if b.Len()+len(text) > MaxStack {
			break
		}
		b.WriteString(text)
	}
	return b.String()
}

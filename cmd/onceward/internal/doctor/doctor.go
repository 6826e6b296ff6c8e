// Package doctor knows what in a consumer's setup loses or stops messages. It
// only judges what others have looked at.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
)

// Level is how bad a finding is.
type Level string

// The levels.
const (
	Error   Level = "error"   // messages are lost or stand still, now or at the next fault
	Warning Level = "warning" // something is weaker than it looks
	Note    Level = "note"    // to be known
)

// Finding is something in the setup, with what it leads to and what mends it.
type Finding struct {
	Level       Level  `json:"level"`
	What        string `json:"what"`
	Consequence string `json:"consequence"`
	Mend        string `json:"mend"`
}

// Setup is what is looked at.
type Setup struct {
	Consumer string
	// Known says that the consumer itself has told: routes and status are not
	// merely empty.
	Known      bool
	Window     time.Duration // the shortest of the routes
	Routes     []Route
	Topics     []Topics
	Store      *dedup.Info // nil where it was not looked at
	LocalGroup bool        // AllowLocalInGroup is set
	Hung       int
	Held       int // letters
	Degraded   []string
	Paused     []dedup.Pause
}

// Route is a route's policy.
type Route struct {
	Scope       string
	Window      time.Duration
	Archive     bool
	LongestWait time.Duration // before a retry
}

// Topics are a source with its destinations.
type Topics struct {
	Names                     [3]string // source, dead letters, retry
	Source, DeadLetter, Retry brokers.TopicInfo
	JetStream                 bool
}

// examination gathers findings.
type examination struct{ found []Finding }

func (x *examination) add(l Level, what, consequence, mend string) {
	x.found = append(x.found, Finding{l, what, consequence, mend})
}

// Look judges a setup: what it found, the worst first, and what it could not
// look at.
func Look(s Setup) (found []Finding, unchecked []string) {
	var x examination
	x.pauses(&s) // first of its level: it is why nothing is handled
	for i := range s.Topics {
		t := &s.Topics[i]
		x.source(&s, t)
		x.deadLetters(&s, t)
		x.retry(&s, t)
	}
	x.store(&s)
	x.status(&s)
	order := []Level{Error, Warning, Note}
	slices.SortStableFunc(x.found, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.Level), slices.Index(order, b.Level))
	})
	if !s.Known {
		unchecked = append(unchecked, "routes, waits and status, which only the running consumer tells: --via")
	}
	if s.Store == nil {
		unchecked = append(unchecked, "the store: --store or --via")
	}
	if slices.ContainsFunc(s.Topics, func(t Topics) bool { return t.JetStream }) {
		unchecked = append(unchecked, "how often the NATS server syncs its disk (sync_interval), which it does not tell clients")
	}
	return x.found, unchecked
}

func (x *examination) source(s *Setup, t *Topics) {
	name, i := t.Names[0], &t.Source
	if i.Missing {
		x.add(Error, name+" does not exist", "the consumer does not start", t.create(0))
		return
	}
	x.hidden(name, i)
	if i.InMemory {
		x.add(Warning, name+" is kept in memory", "what is not handled yet is lost with the server", "make it anew with file storage")
	}
	for _, r := range s.Routes {
		switch {
		case r.Archive || i.Hidden:
		case i.MaxAge == 0:
			x.add(Note, fmt.Sprintf("%s keeps messages for ever, and route %q forgets after %v", name, r.Scope, r.Window),
				"a repeat that a sender makes later than that runs again", "set the route's Archive, or know that no sender repeats so late")
		case r.Window < i.MaxAge:
			x.add(Warning, fmt.Sprintf("route %q forgets after %v, and %s keeps messages for %v", r.Scope, r.Window, name, i.MaxAge),
				"after a position is set back, operations between the two run again or become letters (too-old)",
				fmt.Sprintf("set the route's Window to at least %v, or its Archive", i.MaxAge))
		}
	}
}

// hidden says that a topic cannot be judged.
func (x *examination) hidden(name string, i *brokers.TopicInfo) bool {
	if i.Hidden {
		x.add(Note, name+" does not show its settings to this user", "it was not looked at", "look as a user that may describe it and its configuration")
	}
	return i.Hidden
}

func (x *examination) deadLetters(s *Setup, t *Topics) {
	name, i := t.Names[1], &t.DeadLetter
	if i.Missing {
		so := "the first message that fails for good stops its partition"
		if t.JetStream {
			so = "a message that fails for good is never done with, and the consumer does not start again"
		}
		x.add(Error, name+" does not exist", so, t.create(1))
		return
	}
	if x.hidden(name, i) {
		return
	}
	x.keeping(t, 1, i)
	switch {
	case i.MaxAge > 0 && i.MaxAge < s.Window:
		x.add(Warning, fmt.Sprintf("%s keeps letters for %v only", name, i.MaxAge),
			"letters that nobody has looked at by then are gone, while their records still wait for them", t.alter(1, "retention.ms=-1", "--max-age=0"))
	case i.MaxAge > 0:
		x.add(Note, fmt.Sprintf("%s keeps letters for %v", name, i.MaxAge), "letters that nobody has looked at by then are gone", t.alter(1, "retention.ms=-1", "--max-age=0"))
	}
	if i.ConsumedOnce {
		x.add(Error, name+" is a work queue, or keeps by interest", "letters cannot be looked at without being removed", "make the stream anew with --retention=limits")
	}
	if i.Compacted {
		x.add(Error, name+" is compacted", "a letter is lost when another with the same broker key comes", t.alter(1, "cleanup.policy=delete", "--max-msgs-per-subject=-1"))
	}
	if !t.JetStream && !t.Source.Hidden && i.Partitions < t.Source.Partitions {
		x.add(Note, fmt.Sprintf("%s has %d partitions, %s has %d", name, i.Partitions, t.Names[0], t.Source.Partitions),
			"letters are spread by key, not by partition; tools that copy partition numbers fail", "kafka-topics.sh --alter --topic "+name+fmt.Sprintf(" --partitions %d", t.Source.Partitions))
	}
	const headers = deadletter.MaxHeaders + 1<<10 // with what they are framed with
	if i.MaxMessage > 0 && t.Source.MaxMessage > 0 && i.MaxMessage < t.Source.MaxMessage+headers {
		level := Warning
		if i.MaxMessage >= t.Source.MaxMessage {
			level = Note // as everywhere by default; only what nearly fills the limit is meant
		}
		x.add(level, fmt.Sprintf("%s takes messages of %d bytes, %s of %d", name, i.MaxMessage, t.Names[0], t.Source.MaxMessage),
			"messages of nearly that size become pointer letters, without their payload, which must then still be at its source", t.larger(1, t.Source.MaxMessage+headers))
	}
}

func (x *examination) retry(s *Setup, t *Topics) {
	name, i := t.Names[2], &t.Retry
	if i.Missing {
		x.add(Error, name+" does not exist", "messages that wait for long stay in the process, and replays have nowhere to go", t.create(2))
		return
	}
	if x.hidden(name, i) {
		return
	}
	x.keeping(t, 2, i)
	longest := time.Duration(0)
	for _, r := range s.Routes {
		longest = max(longest, r.LongestWait)
	}
	if i.MaxAge > 0 && i.MaxAge <= longest {
		x.add(Error, fmt.Sprintf("%s keeps messages for %v, and the longest wait is %v", name, i.MaxAge, longest),
			"messages that wait are removed before they are tried again", t.alter(2, fmt.Sprintf("retention.ms=%d", (2*longest).Milliseconds()), fmt.Sprintf("--max-age=%v", 2*longest)))
	}
	if i.Compacted {
		x.add(Error, name+" is compacted", "a waiting message is lost when another with the same broker key comes", t.alter(2, "cleanup.policy=delete", "--max-msgs-per-subject=-1"))
	}
	if i.MaxMessage > 0 && t.Source.MaxMessage > 0 && i.MaxMessage < t.Source.MaxMessage {
		x.add(Error, fmt.Sprintf("%s takes messages of %d bytes, %s of %d", name, i.MaxMessage, t.Names[0], t.Source.MaxMessage),
			"the largest messages cannot wait there, nor be replayed", t.larger(2, t.Source.MaxMessage+headersOfACopy))
	}
}

const headersOfACopy = 2 << 10 // of a replay's copy: id, token, job and count

// keeping is what holds for both destinations.
func (x *examination) keeping(t *Topics, n int, i *brokers.TopicInfo) {
	name := t.Names[n]
	if i.InMemory {
		x.add(Error, name+" is kept in memory", "what lies there is lost with the server, though it was acknowledged at its source", "make it anew with file storage")
	}
	if limit := i.MaxBytes > 0 || i.MaxCount > 0; limit && i.DropsOld {
		x.add(Error, fmt.Sprintf("%s has a limit (%s) at which the oldest go", name, limits(i)),
			"at the limit messages are lost that were acknowledged at their source, and nothing says so", t.alter(n, "retention.bytes=-1", "--discard=new"))
	}
	switch {
	case i.Replicas > 0 && i.InSync > i.Replicas:
		x.add(Error, fmt.Sprintf("%s has %d replicas, and %d must confirm", name, i.Replicas, i.InSync), "nothing can be published there", t.alter(n, fmt.Sprintf("min.insync.replicas=%d", max(i.Replicas-1, 1)), "--replicas=3"))
	case i.Replicas == 1:
		power := "so does a power cut, of what the broker has not written through yet: unless flush.messages is 1, it leaves that to the system"
		if t.JetStream {
			power = "on JetStream a power cut loses the last two minutes unless the server has sync_interval: always"
		}
		x.add(Warning, name+" has one replica", "a lost disk loses what lies there, though it was acknowledged at its source; "+power, t.replicate(n))
	case !t.JetStream && i.Replicas > 1 && i.InSync == 1:
		x.add(Warning, fmt.Sprintf("%s has %d replicas, and one of them confirms alone", name, i.Replicas), "what that one has confirmed is lost with it", t.alter(n, "min.insync.replicas=2", ""))
	case !t.JetStream && i.Replicas > 1 && i.InSync == i.Replicas:
		x.add(Warning, fmt.Sprintf("%s has %d replicas, and all of them must confirm", name, i.Replicas), "while one broker is down nothing can be published there", t.alter(n, fmt.Sprintf("min.insync.replicas=%d", i.Replicas-1), ""))
	}
}

func limits(i *brokers.TopicInfo) string {
	var parts []string
	if i.MaxBytes > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes", i.MaxBytes))
	}
	if i.MaxCount > 0 {
		parts = append(parts, fmt.Sprintf("%d messages", i.MaxCount))
	}
	return strings.Join(parts, ", ")
}

func (x *examination) store(s *Setup) {
	i := s.Store
	if i == nil {
		return
	}
	switch {
	case strings.HasPrefix(i.Kind, "memstore"):
		x.add(Error, "the store is in memory", "a restart forgets what was done, and repeats run again", "use a store that lasts, such as boltstore")
	case i.Local && s.LocalGroup:
		x.add(Error, "the store covers one process, and several are allowed in the group (AllowLocalInGroup)",
			"a repeat that another process gets runs again", "run one process, or share a store between them")
	}
	if i.Unconfirmed {
		x.add(Error, "the store may be older than what its consumer wrote last", "it takes no writes until the consumer has compared", "start the consumer, which looks at its mark at the broker")
	}
	if i.Adopt && s.Known {
		x.add(Warning, "the store was opened with Adopt", "a wrong or an old file would not be noticed", "start the consumer without it: it is for one start")
	}
	switch {
	case i.Full >= 1:
		x.add(Error, "the store is full", "no new operation is taken", "raise its bound (boltstore: MaxIndexBytes), or shorten windows")
	case i.Full >= 0.8:
		x.add(Warning, fmt.Sprintf("the store is %.0f %% full", 100*i.Full), "at its bound no new operation is taken", "raise its bound (boltstore: MaxIndexBytes), or shorten windows")
	}
}

func (x *examination) status(s *Setup) {
	for _, d := range s.Degraded {
		x.add(Warning, "degraded: "+d, "see the consumer's log", "mend the cause; it goes on by itself")
	}
	if s.Hung > 0 {
		x.add(Warning, hungText(s.Hung), "their workers do nothing else", "find out what they wait for; a restart frees them")
	}
	if s.Held > 0 {
		x.add(Note, heldText(s.Held), "no plan sends them unless they are approved", "onceward dlq list --state held; one that it does not list has left its topic, which a plan of all letters says of it from an hour after it was held")
	}
}

func hungText(n int) string {
	if n == 1 {
		return "1 handler has outlived twice its timeout"
	}
	return fmt.Sprintf("%d handlers have outlived twice their timeout", n)
}

func heldText(n int) string {
	if n == 1 {
		return "1 letter is held, since it failed a third time"
	}
	return fmt.Sprintf("%d letters are held, since they failed a third time", n)
}

func (x *examination) pauses(s *Setup) {
	for _, p := range s.Paused {
		what, mend := "the consumer is paused", "onceward resume"
		if p.Scope != "" {
			what, mend = fmt.Sprintf("scope %q is paused", p.Scope), fmt.Sprintf("onceward resume --scope %q", p.Scope)
		}
		x.add(Note, fmt.Sprintf("%s since %s, by %s: %s", what, p.Since.UTC().Format(time.RFC3339), p.Who, p.Why), "nothing new starts there", mend)
	}
}

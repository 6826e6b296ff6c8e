package cli

import (
	"fmt"
	"strconv"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// letterShown is a letter as --json has it. Texts that are no UTF-8 are
// objects with their base64.
type letterShown struct {
	ID          adminapi.Text `json:"id"`
	State       string        `json:"state"`
	Reason      string        `json:"reason,omitzero"`
	Error       adminapi.Text `json:"error,omitzero"`
	ErrorType   adminapi.Text `json:"error_type,omitzero"`
	Consumer    adminapi.Text `json:"consumer,omitzero"`
	Scope       adminapi.Text `json:"scope,omitzero"`
	Key         adminapi.Text `json:"key,omitzero"`
	Run         uint32        `json:"run,omitzero"`
	Failures    int           `json:"failures,omitzero"`
	Crashes     int           `json:"crashes,omitzero"`
	FirstFailed adminapi.Time `json:"first_failed,omitzero"`
	LastFailed  adminapi.Time `json:"last_failed,omitzero"`
	Source      sourceShown   `json:"source,omitzero"`
	// Where the letter lies, and since when.
	Topic     string        `json:"topic"`
	Partition int32         `json:"partition"`
	Offset    int64         `json:"offset"`
	Stored    adminapi.Time `json:"stored,omitzero"`

	AppVersion  adminapi.Text `json:"app_version,omitzero"`
	Traceparent adminapi.Text `json:"traceparent,omitzero"`
	// Of a letter that was moved: by which job, and by whom and why.
	Job      adminapi.Text `json:"job,omitzero"`
	Answer   string        `json:"answer,omitzero"`
	Moved    adminapi.Time `json:"moved,omitzero"`
	Who      adminapi.Text `json:"who,omitzero"`
	Why      adminapi.Text `json:"why,omitzero"`
	Sent     int           `json:"replay_count,omitzero"` // how often it had been sent back before it died
	Omitted  string        `json:"omitted,omitzero"`      // what a pointer letter leaves out
	SHA256   string        `json:"payload_sha256,omitzero"`
	Size     int           `json:"payload_size"`
	NoLetter adminapi.Text `json:"unreadable,omitzero"` // why it is no letter
}

type sourceShown struct {
	Topic     adminapi.Text `json:"topic,omitzero"`
	Subject   adminapi.Text `json:"subject,omitzero"`
	Partition int32         `json:"partition"`
	Offset    int64         `json:"offset"` // or sequence, on JetStream
	Time      adminapi.Time `json:"time,omitzero"`
}

func (s *session) shown(e *deadletter.Entry) letterShown {
	l, n := &e.Letter, &e.Note
	out := letterShown{
		ID: adminapi.Text(l.ID), State: e.State().String(), Reason: string(l.Reason), Error: adminapi.Text(l.Error), ErrorType: adminapi.Text(l.ErrorType),
		Consumer: adminapi.Text(l.Consumer), Scope: adminapi.Text(l.Key.Scope), Key: adminapi.Text(l.Key.ID), Run: l.Run,
		Failures: l.Failures, Crashes: l.Crashes, FirstFailed: adminapi.Time(l.FirstFailed), LastFailed: adminapi.Time(l.LastFailed),
		Source: sourceShown{
			adminapi.Text(l.Source.Topic), adminapi.Text(l.Source.Subject), l.Source.Partition, l.Source.Offset, adminapi.Time(l.Source.Time),
		},
		Topic: s.queue.Topic, Partition: e.At.Partition, Offset: e.At.Offset, Stored: adminapi.Time(e.Stored),
		AppVersion: adminapi.Text(l.AppVersion), Traceparent: adminapi.Text(l.Traceparent),
		Job: adminapi.Text(n.Job), Who: adminapi.Text(n.Who), Why: adminapi.Text(n.Why),
		Sent: l.ReplayCount, Omitted: l.Omitted(), SHA256: l.SHA256, Size: len(l.Value),
	}
	if n.Answer != dedup.Absent {
		out.Answer = n.Answer.String()
	}
	if n.State != dedup.LetterNone && n.Moved != n.Noted {
		out.Moved = adminapi.Time(n.Moved)
	}
	if l.Pointer {
		out.Size = l.Size
	}
	if e.Err != nil {
		out.NoLetter = adminapi.Text(e.Err.Error())
	}
	return out
}

// messageShown is the message that died, byte for byte: null is none, a string
// its bytes where they are UTF-8, an object with base64 where they are not.
type messageShown struct {
	Key     *adminapi.Text `json:"broker_key"`
	Value   *adminapi.Text `json:"value"`
	Headers []headerShown  `json:"headers"`
}

type headerShown struct {
	Name  adminapi.Text  `json:"name"`
	Value *adminapi.Text `json:"value"`
}

func bytesShown(b []byte) *adminapi.Text {
	if b == nil {
		return nil
	}
	t := adminapi.Text(b)
	return &t
}

func messageOf(l *deadletter.Letter) messageShown {
	m := messageShown{Key: bytesShown(l.BrokerKey), Value: bytesShown(l.Value), Headers: make([]headerShown, len(l.Headers))}
	for i, h := range l.Headers {
		m.Headers[i] = headerOf(h)
	}
	return m
}

func headerOf(h brokers.Header) headerShown {
	return headerShown{adminapi.Text(h.Key), bytesShown(h.Value)}
}

// recordShown is a record without what gives power over it.
func recordShown(r *dedup.Record) *adminapi.Record {
	if r.State == dedup.Absent {
		return nil
	}
	out := adminapi.OfRecord(r)
	out.Token = adminapi.Token{}
	return out
}

// keyText is scope and id for people.
func keyText(k dedup.Key) string {
	if k.ID == "" {
		return ""
	}
	return k.Scope + " " + k.ID
}

// sourceText is where the message lies, for people.
func sourceText(s *deadletter.Source) string {
	switch {
	case s.Topic == "" && s.Subject == "":
		return ""
	case s.JetStream:
		return fmt.Sprintf("%s %s, sequence %d", s.Topic, s.Subject, s.Offset)
	}
	return s.Topic + "/" + strconv.Itoa(int(s.Partition)) + ", offset " + strconv.FormatInt(s.Offset, 10)
}

package adminapi

import (
	"encoding/hex"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/onceward/onceward/dedup"
)

// Key is a [dedup.Key].
type Key struct {
	Consumer Text `json:"consumer"`
	Scope    Text `json:"scope,omitzero"`
	ID       Text `json:"id,omitzero"`
}

// OfKey is k as JSON.
func OfKey(k dedup.Key) Key { return Key{Text(k.Consumer), Text(k.Scope), Text(k.ID)} }

// Dedup is k as the store has it.
func (k Key) Dedup() dedup.Key {
	return dedup.Key{Consumer: string(k.Consumer), Scope: string(k.Scope), ID: string(k.ID)}
}

// Hash is 32 bytes in hexadecimal digits.
type Hash [32]byte

// MarshalJSONTo writes 64 digits.
func (h Hash) MarshalJSONTo(e *jsontext.Encoder) error { return writeHex(e, h[:]) }

// UnmarshalJSONFrom reads 64 digits.
func (h *Hash) UnmarshalJSONFrom(d *jsontext.Decoder) error { return readHex(d, h[:]) }

// Token is a claim's token in hexadecimal digits.
type Token dedup.Token

// MarshalJSONTo writes 32 digits.
func (t Token) MarshalJSONTo(e *jsontext.Encoder) error { return writeHex(e, t[:]) }

// UnmarshalJSONFrom reads 32 digits.
func (t *Token) UnmarshalJSONFrom(d *jsontext.Decoder) error { return readHex(d, t[:]) }

func writeHex(e *jsontext.Encoder, b []byte) error {
	return e.WriteToken(jsontext.String(hex.EncodeToString(b)))
}

func readHex(d *jsontext.Decoder, into []byte) error {
	s, err := readString(d)
	if err != nil {
		return err
	}
	if len(s) != hex.EncodedLen(len(into)) {
		return errors.New("wrong number of hexadecimal digits")
	}
	if _, err := hex.Decode(into, []byte(s)); err != nil {
		return errors.New("must be hexadecimal digits")
	}
	return nil
}

// Fingerprint is a [dedup.Fingerprint].
type Fingerprint struct {
	Sum  Hash   `json:"sum"`
	Rule uint32 `json:"rule,omitzero"`
}

// Position is a [dedup.Position].
type Position struct {
	Source    Text  `json:"source"`
	Partition int32 `json:"partition,omitzero"`
	Offset    int64 `json:"offset,omitzero"`
}

func ofPosition(p dedup.Position) Position { return Position{Text(p.Source), p.Partition, p.Offset} }

func (p Position) dedup() dedup.Position {
	return dedup.Position{Source: string(p.Source), Partition: p.Partition, Offset: p.Offset}
}

// Intent is a [dedup.Intent].
type Intent struct {
	Effect     Text         `json:"effect"`
	Status     IntentStatus `json:"status"`
	Blind      bool         `json:"blind,omitzero"`
	EffectRun  uint32       `json:"effect_run,omitzero"`
	Dispatched Time         `json:"dispatched,omitzero"`
	QuietFor   Duration     `json:"quiet_for,omitzero"`
	External   Text         `json:"external,omitzero"`
	Outcome    []byte       `json:"outcome,omitzero"`
}

// Evidence is a [dedup.Evidence].
type Evidence struct {
	At      Time    `json:"at,omitzero"`
	Kind    Kind    `json:"kind"`
	Fence   uint64  `json:"fence,omitzero"`
	Outcome Outcome `json:"outcome,omitzero"`
	Note    Text    `json:"note,omitzero"`
}

// Record is a [dedup.Record].
type Record struct {
	Key         Key         `json:"key"`
	State       State       `json:"state"`
	Fence       uint64      `json:"fence,omitzero"`
	Opened      uint64      `json:"opened,omitzero"`
	Run         uint32      `json:"run,omitzero"`
	Token       Token       `json:"token,omitzero"`
	LeaseUntil  Time        `json:"lease_until,omitzero"`
	Live        bool        `json:"live,omitzero"`
	Alone       bool        `json:"alone,omitzero"`
	NotBefore   Time        `json:"not_before,omitzero"`
	Failures    uint32      `json:"failures,omitzero"`
	Crashes     uint32      `json:"crashes,omitzero"`
	Lone        uint32      `json:"lone,omitzero"`
	FirstFailed Time        `json:"first_failed,omitzero"`
	LastFailed  Time        `json:"last_failed,omitzero"`
	Owed        bool        `json:"owed,omitzero"`
	Reason      Text        `json:"reason,omitzero"`
	Error       Text        `json:"error,omitzero"`
	ErrorType   Text        `json:"error_type,omitzero"`
	Stack       Text        `json:"stack,omitzero"`
	Fingerprint Fingerprint `json:"fingerprint,omitzero"`
	Result      []byte      `json:"result,omitzero"`
	Digest      bool        `json:"digest,omitzero"`
	Intents     []Intent    `json:"intents,omitzero"`
	Source      Position    `json:"source,omitzero"`
	Created     Time        `json:"created,omitzero"`
	Claimed     Time        `json:"claimed,omitzero"`
	Finished    Time        `json:"finished,omitzero"`
	Window      Duration    `json:"window,omitzero"`
	Archive     bool        `json:"archive,omitzero"`
	Outcome     State       `json:"outcome,omitzero"`
	Job         Text        `json:"job,omitzero"`
	Letter      Text        `json:"letter,omitzero"`
	Sent        bool        `json:"sent,omitzero"`
	Approver    Text        `json:"approver,omitzero"`
	Why         Text        `json:"why,omitzero"`
	Evidence    []Evidence  `json:"evidence,omitzero"`
}

// OfRecord is r as JSON; byte slices are shared.
func OfRecord(r *dedup.Record) *Record {
	out := &Record{
		Key: OfKey(r.Key), State: State(r.State), Fence: r.Fence, Opened: r.Opened, Run: r.Run,
		Token: Token(r.Token), LeaseUntil: Time(r.LeaseUntil), Live: r.Live, Alone: r.Alone, NotBefore: Time(r.NotBefore),
		Failures: r.Failures, Crashes: r.Crashes, Lone: r.Lone, FirstFailed: Time(r.FirstFailed), LastFailed: Time(r.LastFailed),
		Owed: r.Owed, Reason: Text(r.Reason), Error: Text(r.Error), ErrorType: Text(r.ErrorType), Stack: Text(r.Stack),
		Fingerprint: Fingerprint{Hash(r.Fingerprint.Sum), r.Fingerprint.Rule}, Result: r.Result, Digest: r.Digest,
		Source: ofPosition(r.Source), Created: Time(r.Created), Claimed: Time(r.Claimed), Finished: Time(r.Finished),
		Window: Duration(r.Window), Archive: r.Archive, Outcome: State(r.Outcome),
		Job: Text(r.Job), Letter: Text(r.Letter), Sent: r.Sent, Approver: Text(r.Approver), Why: Text(r.Why),
	}
	if r.Intents != nil {
		out.Intents = make([]Intent, len(r.Intents))
	}
	for n, i := range r.Intents {
		out.Intents[n] = Intent{
			Text(i.Effect), IntentStatus(i.Status), i.Blind, i.EffectRun, Time(i.Dispatched), Duration(i.QuietFor), Text(i.External), i.Outcome,
		}
	}
	if r.Evidence != nil {
		out.Evidence = make([]Evidence, len(r.Evidence))
	}
	for n, e := range r.Evidence {
		out.Evidence[n] = Evidence{Time(e.At), Kind(e.Kind), e.Fence, Outcome(e.Outcome), Text(e.Note)}
	}
	return out
}

// Dedup is r as the store has it; byte slices are shared.
func (r *Record) Dedup() dedup.Record {
	out := dedup.Record{
		Key: r.Key.Dedup(), State: dedup.State(r.State), Fence: r.Fence, Opened: r.Opened, Run: r.Run,
		Token: dedup.Token(r.Token), LeaseUntil: r.LeaseUntil.Time(), Live: r.Live, Alone: r.Alone, NotBefore: r.NotBefore.Time(),
		Failures: r.Failures, Crashes: r.Crashes, Lone: r.Lone, FirstFailed: r.FirstFailed.Time(), LastFailed: r.LastFailed.Time(),
		Owed: r.Owed, Reason: string(r.Reason), Error: string(r.Error), ErrorType: string(r.ErrorType), Stack: string(r.Stack),
		Fingerprint: dedup.Fingerprint{Sum: r.Fingerprint.Sum, Rule: r.Fingerprint.Rule}, Result: r.Result, Digest: r.Digest,
		Source: r.Source.dedup(), Created: r.Created.Time(), Claimed: r.Claimed.Time(), Finished: r.Finished.Time(),
		Window: time.Duration(r.Window), Archive: r.Archive, Outcome: dedup.State(r.Outcome),
		Job: string(r.Job), Letter: string(r.Letter), Sent: r.Sent, Approver: string(r.Approver), Why: string(r.Why),
	}
	if r.Intents != nil {
		out.Intents = make([]dedup.Intent, len(r.Intents))
	}
	for n, i := range r.Intents {
		out.Intents[n] = dedup.Intent{
			Effect: string(i.Effect), Status: dedup.IntentStatus(i.Status), Blind: i.Blind, EffectRun: i.EffectRun,
			Dispatched: i.Dispatched.Time(), QuietFor: time.Duration(i.QuietFor), External: string(i.External), Outcome: i.Outcome,
		}
	}
	if r.Evidence != nil {
		out.Evidence = make([]dedup.Evidence, len(r.Evidence))
	}
	for n, e := range r.Evidence {
		out.Evidence[n] = dedup.Evidence{At: e.At.Time(), Kind: dedup.Kind(e.Kind), Fence: e.Fence, Outcome: dedup.Outcome(e.Outcome), Note: string(e.Note)}
	}
	return out
}

package adminapi

import "github.com/onceward/onceward/dedup"

// Consumer is what a consumer says of itself and of how it was set up, with
// every default filled in.
type Consumer struct {
	Name       Text    `json:"name"`
	AppVersion Text    `json:"app_version,omitzero"`
	Now        Time    `json:"now"` // by the process's clock
	You        Caller  `json:"you"`
	Start      Text    `json:"start"`
	Topics     []Topic `json:"topics"`
	Routes     []Route `json:"routes"`
	Store      Store   `json:"store"`
	Status     Status  `json:"status"`
	Limits     Limits  `json:"limits"`
	LocalGroup bool    `json:"allow_local_in_group,omitzero"`
	Browses    bool    `json:"browses"` // its broker can be browsed and inspected
}

// Caller is who asks, as the consumer sees it.
type Caller struct {
	Who  Text `json:"who"`
	Role Text `json:"role"`
}

// Topic is one of the consumer's topics or streams, and where its letters and
// waiting copies go.
type Topic struct {
	Name       Text `json:"name"`
	DeadLetter Text `json:"dead_letter"`
	Retry      Text `json:"retry"`
}

// Route is a route with its policy.
type Route struct {
	Scope           Text     `json:"scope"`
	KeyRule         Text     `json:"key_rule,omitzero"`
	FingerprintRule Text     `json:"fingerprint_rule,omitzero"`
	Window          Duration `json:"window"`
	Archive         bool     `json:"archive,omitzero"`
	Timeout         Duration `json:"timeout"`
	MaxFailures     int      `json:"max_failures"`
	MaxLoneCrashes  int      `json:"max_lone_crashes"`
	MaxBlocking     Duration `json:"max_blocking"`
	LongestWait     Duration `json:"longest_wait"` // of one retry
	AllWaits        Duration `json:"all_waits"`    // of all retries together
	HoldKey         bool     `json:"hold_key,omitzero"`
}

// Store is a [dedup.Info].
type Store struct {
	Kind        Text    `json:"kind"`
	Local       bool    `json:"local,omitzero"`
	ID          Text    `json:"id,omitzero"`
	Sequence    uint64  `json:"sequence,omitzero"`
	Records     int64   `json:"records"`
	Full        float64 `json:"full,omitzero"`
	Adopt       bool    `json:"adopt,omitzero"`
	Unconfirmed bool    `json:"unconfirmed,omitzero"`
}

// OfInfo is i as JSON.
func OfInfo(i dedup.Info) Store {
	return Store{Text(i.Kind), i.Local, Text(i.ID), i.Sequence, i.Records, i.Full, i.Adopt, i.Unconfirmed}
}

// Dedup is s as the store said it.
func (s Store) Dedup() dedup.Info {
	return dedup.Info{
		Kind: string(s.Kind), Local: s.Local, ID: string(s.ID), Sequence: s.Sequence, Records: s.Records, Full: s.Full,
		Adopt: s.Adopt, Unconfirmed: s.Unconfirmed,
	}
}

// Status is how the consumer fares.
type Status struct {
	Live       bool      `json:"live"`
	Ready      bool      `json:"ready"`
	Degraded   []Trouble `json:"degraded,omitzero"`
	Unfinished int       `json:"unfinished"`
	Bytes      int       `json:"bytes"`
	Hung       int       `json:"hung"`
	Lag        int64     `json:"lag"` // -1 until it is known
	Paused     []Pause   `json:"paused,omitzero"`
}

// Stats are the consumer's figures.
type Stats struct {
	Open     int      `json:"open"`
	Held     int      `json:"held"`
	Sent     int      `json:"sent"`
	Oldest   Time     `json:"oldest,omitzero"`
	Reasons  []Reason `json:"reasons,omitzero"`
	Absorbed int64    `json:"absorbed"`
	At       Time     `json:"at"`
}

// Reason is how many letters that wait for somebody have one dl-reason.
type Reason struct {
	Name  Text `json:"name"`
	Count int  `json:"count"`
}

// Trouble is something that does not work at the moment.
type Trouble struct {
	What  Text `json:"what"`
	Error Text `json:"error"`
}

// Limits are bounds of the whole consumer.
type Limits struct {
	Workers    int      `json:"workers"`
	Unfinished int      `json:"unfinished"` // messages
	Bytes      int      `json:"bytes"`
	Lease      Duration `json:"lease"`
	Drain      Duration `json:"drain"`
}

// Pause is a [dedup.Pause].
type Pause struct {
	Scope Text `json:"scope,omitzero"` // empty: the whole consumer
	Since Time `json:"since,omitzero"`
	Who   Text `json:"who,omitzero"`
	Why   Text `json:"why,omitzero"`
}

// OfPause is p as JSON.
func OfPause(p dedup.Pause) Pause {
	return Pause{Text(p.Scope), Time(p.Since), Text(p.Who), Text(p.Why)}
}

// Dedup is p as the store has it, of the consumer.
func (p Pause) Dedup(consumer string) dedup.Pause {
	return dedup.Pause{Consumer: consumer, Scope: string(p.Scope), Since: p.Since.Time(), Who: string(p.Who), Why: string(p.Why)}
}

// PausesResponse is what is paused of the consumer.
type PausesResponse struct {
	Pauses []Pause `json:"pauses"`
}

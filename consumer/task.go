package consumer

import (
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// task is one delivery on its way through the pipeline. It belongs to one
// goroutine at a time: the receiver until it is handed to the loop, a worker
// between take and finish, else the loop.
type task struct {
	d     *brokers.Delivery
	view  Delivery
	route *Route // nil when no key was found
	lane  *lane
	size  int
	phase phase

	// From the payload.
	order uint64 // ordering key, hashed; 0 for none
	hash  uint64 // key, hashed, for the breaker
	fp    dedup.Fingerprint
	bad   *keyError // decode or key fault: a letter without a record
	// From the store: what is a copy of a letter; nil for all others.
	replay *replay

	next *task // waits behind this one for the same ordering key

	// From the claim; valid while owned.
	token    dedup.Token
	fence    uint64
	opened   uint64
	run      uint32
	failures uint32
	crashes  uint32
	lone     uint32
	record   *dedup.Record // what the store told, nil where it had nothing to tell
	leaseEnd time.Time     // by our own monotonic clock
	renewAt  time.Time
	owned    bool
	hung     bool // runs for more than twice its timeout
	counts   bool // while hung: a failure of it does, as the breaker said when it was found

	// From the handler.
	attempt *attempt
	epoch   attemptEpoch // of the breaker
	began   time.Time
	ran     time.Duration
	result  Result
	err     error
	stack   string

	// What was decided: see pipeline.go.
	outcome dedup.Outcome
	reason  string
	wait    time.Duration
	note    letterNote
	answer  dedup.State // what its letter is told, where it answers one
	due     time.Time   // parked until
	tries   int         // publishes that failed in a row
	copied  bool        // its retry copy is confirmed
	pointer bool        // its letter is to be a pointer
	slot    int         // in the list of owned tasks
}

// phase says who has a task and what it waits for.
type phase uint8

const (
	queued    phase = iota // behind another of its ordering key
	pending                // to be claimed
	parked                 // until due
	held                   // until its scope is no longer paused
	claiming               // a claim is being written
	ready                  // owned, not started
	running                // a worker has it
	copying                // its retry copy is being published
	ending                 // its end is to be written
	lettering              // its letter is being published
	noting                 // its letter is to be noted
	answering              // the letter of which it is a copy is to be answered
	acking                 // settled with this round's acks
	gone
)

// letterNote is what the store is told about a letter once it is confirmed.
type letterNote struct {
	id     string
	reason string
	run    uint32
	opened uint64
	owed   bool // by the record of that run
}

// lane is what the loop knows of a broker's lane.
type lane struct {
	*brokers.Lane
	passed     int64 // the store had acknowledged all below when the lane began
	active     int   // tasks of it that are owned or being settled
	unfinished int   // all tasks of it
	ended      bool  // nothing new starts, nothing is acknowledged once drained
	lost       bool  // nothing can be acknowledged any more
	paused     bool
	cancelAt   time.Time     // running handlers are cut short then
	drained    chan struct{} // closed when active falls to 0 after ended
}

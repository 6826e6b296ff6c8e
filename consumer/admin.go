package consumer

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/adminapi"
)

// AdminConfig says who may use [Consumer.Admin]. The zero value is everybody on
// the same machine, and nobody else.
type AdminConfig struct {
	// Tokens, where there are any, are asked of everybody, also of those on the
	// same machine. At most 1,000.
	Tokens []AdminToken
}

// Admin is what an operator's command works on while the consumer runs: its
// records and letters, which lie in a file that nobody else can open, its own
// topics, and pauses. Mount it at the root of a server, or behind
// [http.StripPrefix]; all of its paths begin with /v1/.
//
// Without tokens it serves only requests that come from the machine's loopback
// address, name a loopback host and bear no sign of a proxy, in every role; who
// in the history is "local", and the name that the client gives behind a colon.
// "kubectl port-forward" comes so. With tokens it serves who presents one, in
// its role, and who is the token's name: put TLS before it. It never serves a
// browser's page of another origin.
//
// It does what an operator may do and nothing else: operations are those of
// replays and operators on this consumer's keys, topics are those that the
// consumer reads and its dead-letter and retry destinations, and it publishes to
// all of them but the dead letters. Every change is logged, with who.
//
// A body is at most 16 MiB and has to come within a minute; a request has at most
// 1,000 operations, messages, keys or topics. Eight streams and eight other
// requests are served at once, and what has no turn within 10 s is refused; a
// call of store or broker may take a minute, a stream an hour.
//
// It may be used before, while and after the consumer runs; changes are refused
// as long as a local store has not been compared with what the broker remembers
// of it. What fails says so in JSON, and so does the last line of each stream:
// without it, the stream was cut.
//
// Errors: a [*ConfigError] that lists every fault of the tokens, none of which
// it quotes.
func (c *Consumer) Admin(cfg AdminConfig) (http.Handler, error) {
	var f faults
	known := cfg.check(&f)
	if len(f) > 0 {
		return nil, &ConfigError{Consumer: c.cfg.Name, Faults: f}
	}
	a := &admin{
		c: c, log: c.log, tokens: known,
		streams: make(chan struct{}, maxStreams), calls: make(chan struct{}, maxCalls),
	}
	a.topics = newOwnTopics(c)
	a.endpoints = a.table()
	return a, nil
}

const (
	maxStreams = 8 // scans and browses at once
	maxCalls   = 8 // other requests at once, each with up to adminapi.MaxBody in hand
)

// adminVersion is what each answer says of itself.
var adminVersion = strconv.Itoa(adminapi.Version)

// admin serves the API. Everything but the limits is set once.
type admin struct {
	c         *Consumer
	log       *slog.Logger
	tokens    []knownToken
	topics    *ownTopics
	endpoints map[string]map[string]endpoint // by path, and by method
	streams   chan struct{}
	calls     chan struct{}
	turned    turnedAway
}

// endpoint is one thing that can be asked for.
type endpoint struct {
	role  AdminRole     // at least
	turns chan struct{} // of which it takes one; nil for what is quick and small
	query []string      // parameters that it knows
	serve func(w http.ResponseWriter, r *request) *refusal
}

// table says what there is and which role it takes. What a change takes besides
// is said by opRoles.
func (a *admin) table() map[string]map[string]endpoint {
	records := []string{"scope", "state", "completed_after", "completed_before", "limit"}
	letters, topic := []string{"state", "limit"}, []string{"topic", "since", "offset"}
	const get, post, remove = http.MethodGet, http.MethodPost, http.MethodDelete
	return map[string]map[string]endpoint{
		"/v1/consumer": {get: {AdminView, nil, nil, a.consumer}},
		"/v1/stats":    {get: {AdminView, a.calls, nil, a.figures}},
		"/v1/records":  {get: {AdminView, a.streams, records, a.scanRecords}, post: {AdminView, a.calls, nil, a.records}},
		"/v1/letters":  {get: {AdminView, a.streams, letters, a.scanLetters}, post: {AdminView, a.calls, nil, a.letters}},
		"/v1/apply":    {post: {AdminReplay, a.calls, nil, a.apply}},
		"/v1/browse":   {get: {AdminView, a.streams, topic, a.browse}},
		"/v1/inspect":  {post: {AdminView, a.calls, nil, a.inspect}},
		"/v1/publish":  {post: {AdminReplay, a.calls, nil, a.publish}},
		"/v1/pause": {
			get: {AdminView, nil, nil, a.pauses}, post: {AdminReplay, a.calls, nil, a.pause}, remove: {AdminReplay, a.calls, nil, a.resume},
		},
	}
}

// request is one that may be served.
type request struct {
	*http.Request
	caller
}

// ServeHTTP is [http.Handler].
func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set(adminapi.VersionHeader, adminVersion)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	defer a.recovered(r)
	if r.ContentLength != 0 {
		boundBody(w, time.Now().Add(bodyFor))
	}
	if refusal := a.handle(w, r); refusal != nil {
		refusal.write(w)
	}
}

// handle serves a request, or says why it is refused, before anything of the
// answer is written. Its body is not read before there is room for it.
func (a *admin) handle(w http.ResponseWriter, r *http.Request) *refusal {
	who, refusal := a.admit(r)
	if refusal != nil {
		a.turnAway(r, refusal)
		return refusal
	}
	e, refusal := a.find(r)
	switch {
	case refusal != nil:
		return refusal
	case who.role < e.role:
		return lacks(who, e.role, "changing anything")
	}
	in := &request{r, who}
	if e.turns != nil {
		leave, refusal := enter(in, e.turns)
		if refusal != nil {
			return refusal
		}
		defer leave()
	}
	return e.serve(w, in)
}

// recovered ends a request whose store or broker has panicked, and its
// connection: a stream that has begun must not look complete, and a change not
// as if it had not been made. The consumer goes on.
func (a *admin) recovered(r *http.Request) {
	v := recover()
	switch v {
	case nil:
	case http.ErrAbortHandler:
		panic(v)
	default:
		a.log.Error("admin request panicked", "path", r.URL.Path, "panic", a.c.cfg.Redact(fmt.Sprint(v)), "stack", a.c.cfg.Redact(string(debug.Stack())))
		panic(http.ErrAbortHandler)
	}
}

// find is the endpoint that a request asks for.
func (a *admin) find(r *http.Request) (endpoint, *refusal) {
	methods, known := a.endpoints[r.URL.Path]
	if !known {
		if v, ok := otherVersion(r.URL.Path); ok {
			return endpoint{}, refuse(http.StatusNotFound, adminapi.CodeVersion,
				fmt.Sprintf("this consumer speaks version %d of the interface, not %s: use a command of its own release", adminapi.Version, v))
		}
		return endpoint{}, refuse(http.StatusNotFound, adminapi.CodePath, "this consumer knows no "+quoteBounded(r.URL.Path))
	}
	e, known := methods[r.Method]
	if !known {
		return endpoint{}, refuse(http.StatusMethodNotAllowed, adminapi.CodePath, r.URL.Path+" does not take "+quoteBounded(r.Method))
	}
	if r.Method != http.MethodGet {
		kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		if !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
			return endpoint{}, refuse(http.StatusUnsupportedMediaType, adminapi.CodeRequest, "the body must be application/json")
		}
	}
	for name := range r.URL.Query() {
		if !slices.Contains(e.query, name) || r.Method != http.MethodGet {
			return endpoint{}, refuse(http.StatusBadRequest, adminapi.CodeField, "unknown parameter "+quoteBounded(name))
		}
	}
	return e, nil
}

// otherVersion is the version that a path begins with, if it is not ours.
func otherVersion(path string) (string, bool) {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	digits, ok := strings.CutPrefix(first, "v")
	ok = ok && digits != "" && len(digits) < 10 && strings.Trim(digits, "0123456789") == ""
	return digits, ok && digits != adminVersion
}

package service

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/consumer"
)

// Health answers for the consumer, also before there is one, and lets an
// operator's command work on it.
type Health struct {
	consumer atomic.Pointer[consumer.Consumer]
	admin    atomic.Pointer[http.Handler]
	counts   atomic.Pointer[counts]
	server   *http.Server // nil when nobody asked for it
	address  string       // that it has
}

// Listen begins to answer at the address: /livez and /readyz with 200 or 503,
// /status with JSON, and below /v1/ what consumer.Admin serves. An empty address
// is none.
func Listen(ctx context.Context, address string, log *slog.Logger) (*Health, error) {
	h := &Health{}
	if address == "" {
		return h, nil
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.status().Live) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.status().Ready) })
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { h.tell(w) })
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) { h.administer(w, r) })
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	h.address = l.Addr().String()
	log.Info("health endpoints", "address", h.address)
	go func() { _ = h.server.Serve(l) }() // ends with ErrServerClosed
	return h, nil
}

// of says whose health it is from now on.
func (h *Health) of(c *consumer.Consumer, admin http.Handler, n *counts) {
	h.counts.Store(n)
	h.admin.Store(&admin)
	h.consumer.Store(c)
}

func (h *Health) status() consumer.Status {
	if c := h.consumer.Load(); c != nil {
		return c.Status()
	}
	return consumer.Status{Live: true, Lag: -1} // it is starting
}

// Close ends the endpoints.
func (h *Health) Close() {
	if h.server != nil {
		_ = h.server.Close() // nobody is left to tell
	}
}

func (h *Health) administer(w http.ResponseWriter, r *http.Request) {
	admin := h.admin.Load()
	if admin == nil {
		http.Error(w, "the consumer is starting", http.StatusServiceUnavailable)
		return
	}
	(*admin).ServeHTTP(w, r)
}

func answer(w http.ResponseWriter, good bool) {
	if !good {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// pausedScope is what somebody has paused, as /status has it.
type pausedScope struct {
	Scope string    `json:"scope,omitempty"` // absent: the whole consumer
	Since time.Time `json:"since"`
	Who   string    `json:"who"`
	Why   string    `json:"why"`
}

func (h *Health) tell(w http.ResponseWriter) {
	var done map[string]int
	if n := h.counts.Load(); n != nil {
		done = n.now()
	}
	describe(w, h.status(), done)
}

// describe writes a status as JSON.
func describe(w http.ResponseWriter, s consumer.Status, done map[string]int) {
	paused := make([]pausedScope, len(s.Paused))
	for i, p := range s.Paused {
		paused[i] = pausedScope{p.Scope, p.Since, p.Who, p.Why}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct { //nolint:errchkjson // a peer that is gone is nobody's loss
		Live       bool              `json:"live"`
		Ready      bool              `json:"ready"`
		Degraded   map[string]string `json:"degraded,omitempty"`
		Paused     []pausedScope     `json:"paused,omitempty"`
		Unfinished int               `json:"unfinished"`
		Bytes      int               `json:"bytes"`
		Hung       int               `json:"hung"`
		Lag        int64             `json:"lag"`    // messages that are not settled, -1 until it is known
		Counts     map[string]int    `json:"counts"` // of what became of deliveries
	}{s.Live, s.Ready, s.Degraded, paused, s.Unfinished, s.Bytes, s.Hung, s.Lag, done})
}

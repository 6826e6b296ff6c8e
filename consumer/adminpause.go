package consumer

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// pauses tells what is paused.
func (a *admin) pauses(w http.ResponseWriter, r *request) *refusal {
	ctx, cancel := context.WithTimeout(r.Context(), callFor)
	defer cancel()
	paused, err := dedup.Pauses(ctx, a.c.cfg.Store, a.c.cfg.Name, a.c.scopes())
	if err != nil {
		return failed(err)
	}
	answer := adminapi.PausesResponse{Pauses: make([]adminapi.Pause, len(paused))}
	for i, p := range paused {
		answer.Pauses[i] = adminapi.OfPause(p)
	}
	return served(w, &answer)
}

func (a *admin) pause(w http.ResponseWriter, r *request) *refusal {
	return a.setPause(w, r, "paused", dedup.SetPause)
}

func (a *admin) resume(w http.ResponseWriter, r *request) *refusal {
	return a.setPause(w, r, "resumed", dedup.LiftPause)
}

func (a *admin) setPause(w http.ResponseWriter, r *request, did string, set func(context.Context, dedup.Applier, dedup.Pause) (bool, error)) *refusal {
	var q adminapi.PauseRequest
	if refusal := readBody(w, r, &q); refusal != nil {
		return refusal
	}
	switch {
	case q.Scope != "" && !slices.Contains(a.c.scopes(), string(q.Scope)):
		return refuse(http.StatusNotFound, adminapi.CodeRequest, fmt.Sprintf("consumer %s has no scope %s", a.c.cfg.Name, quoteBounded(string(q.Scope))))
	case len(q.Why) > dedup.MaxError:
		return refuse(http.StatusBadRequest, adminapi.CodeRequest, fmt.Sprintf("why is %d bytes, at most %d", len(q.Why), dedup.MaxError))
	}
	if refusal := a.writable(); refusal != nil {
		return refusal
	}
	ctx, cancel := context.WithTimeout(r.Context(), callFor)
	defer cancel()
	changed, err := set(ctx, a.c.cfg.Store, dedup.Pause{Consumer: a.c.cfg.Name, Scope: string(q.Scope), Who: r.who, Why: string(q.Why)})
	if err != nil {
		return failed(err)
	}
	a.log.Info("admin "+did, "who", r.who, "scope", string(q.Scope), "why", string(q.Why), "changed", changed)
	return served(w, &adminapi.PauseResponse{Changed: changed})
}

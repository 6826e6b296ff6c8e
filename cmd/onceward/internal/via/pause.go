package via

import (
	"context"
	"net/http"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// Pauses reads what of the consumer is paused.
//
// Errors: an [*Error]; what the store says.
func (c *Client) Pauses(ctx context.Context) ([]dedup.Pause, error) {
	var answer adminapi.PausesResponse
	if err := c.call(ctx, request{method: http.MethodGet, path: "/pause", again: true}, &answer); err != nil {
		return nil, err
	}
	pauses := make([]dedup.Pause, len(answer.Pauses))
	for i, p := range answer.Pauses {
		pauses[i] = p.Dedup(c.Name())
	}
	return pauses, nil
}

// Pause pauses the consumer, or one scope of it; see [dedup.SetPause]. It is
// false where that is paused already.
//
// Errors: an [*Error]; what the store says.
func (c *Client) Pause(ctx context.Context, scope, why string) (changed bool, err error) {
	return c.pause(ctx, http.MethodPost, scope, why)
}

// Resume takes back what [Client.Pause] of the same scope did; see
// [dedup.LiftPause]. It is false where nothing is paused.
//
// Errors: an [*Error]; what the store says.
func (c *Client) Resume(ctx context.Context, scope, why string) (changed bool, err error) {
	return c.pause(ctx, http.MethodDelete, scope, why)
}

func (c *Client) pause(ctx context.Context, method, scope, why string) (bool, error) {
	body, err := adminapi.Encode(&adminapi.PauseRequest{Scope: adminapi.Text(scope), Why: adminapi.Text(why)})
	if err != nil {
		return false, err
	}
	var answer adminapi.PauseResponse
	// Once more does what was to be done, but cannot say who did it.
	if err := c.call(ctx, request{method: method, path: "/pause", body: body}, &answer); err != nil {
		return false, err
	}
	return answer.Changed, nil
}

package via

import (
	"context"
	"net/http"

	"github.com/onceward/onceward/internal/adminapi"
)

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

// Pauses are what is paused by now.
//
// Errors: an [*Error]; what the store says.
func (c *Client) Pauses(ctx context.Context) ([]adminapi.Pause, error) {
	var answer adminapi.PausesResponse
	err := c.call(ctx, request{method: http.MethodGet, path: "/pause", again: true}, &answer)
	return answer.Pauses, err
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

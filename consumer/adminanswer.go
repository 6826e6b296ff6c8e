package consumer

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/onceward/onceward/internal/adminapi"
)

// refusal is the answer to a request that is not served.
type refusal struct {
	status int
	fault  adminapi.Fault
}

func refuse(status int, code adminapi.Code, message string) *refusal {
	return &refusal{status, adminapi.Fault{Code: code, Message: adminapi.Text(message)}}
}

// failed is the answer to a request that the store or the broker did not do.
func failed(err error) *refusal {
	status := http.StatusInternalServerError
	f := adminapi.OfError(err)
	switch f.Code {
	case adminapi.CodeNoDestination:
		status = http.StatusNotFound
	case adminapi.CodeInvalidOp:
		status = http.StatusBadRequest
	case adminapi.CodeClosed, adminapi.CodeFull:
		status = http.StatusServiceUnavailable
	}
	return &refusal{status, *f}
}

func (r *refusal) write(w http.ResponseWriter) {
	switch r.fault.Code {
	case adminapi.CodeToken:
		w.Header().Set("WWW-Authenticate", `Bearer realm="onceward"`)
	case adminapi.CodeBusy, adminapi.CodeNotReady:
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, r.status, &adminapi.Failure{Error: r.fault})
}

// served answers with v, and refuses nothing.
func served(w http.ResponseWriter, v any) *refusal {
	writeJSON(w, http.StatusOK, v)
	return nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := adminapi.Encode(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":"error","message":"the answer cannot be written as JSON"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a peer that is gone is nobody's loss
}

// Times that a peer has. A port that is forwarded across the world takes seconds
// for the largest body; one that does not move at all is not waited for.
const (
	bodyFor  = time.Minute      // to send a body
	waitFor  = 10 * time.Second // for its turn, while others are served
	callFor  = time.Minute      // for the store or the broker to answer
	stallFor = 2 * time.Minute  // to take what a stream has ready
	// streamFor bounds a stream in all: ten million letters take some minutes,
	// and a scan that nobody ends keeps a local store's file from shrinking.
	streamFor = time.Hour
)

// boundBody says until when the body must have come, also what the server reads
// of it behind a refusal. A server that cannot has bounds of its own.
func boundBody(w http.ResponseWriter, until time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(until)
}

// readBody decodes the body into v.
func readBody(w http.ResponseWriter, r *request, v any) *refusal {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, adminapi.MaxBody))
	if err == nil {
		boundBody(w, time.Time{}) // what the peer sends now is its next request
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return refuse(http.StatusRequestEntityTooLarge, adminapi.CodeBodySize, "the body is larger than 16 MiB")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, adminapi.CodeRequest, "the body did not come within a minute")
	case err != nil:
		return refuse(http.StatusBadRequest, adminapi.CodeRequest, "the body could not be read")
	}
	switch err := adminapi.Decode(b, v); {
	case errors.Is(err, adminapi.ErrField):
		return refuse(http.StatusBadRequest, adminapi.CodeField, err.Error()+": this consumer is older than the command, or the field is misspelt")
	case err != nil:
		return refuse(http.StatusBadRequest, adminapi.CodeRequest, err.Error())
	}
	return nil
}

// enter takes one of a bounded number of turns; leave gives it back.
func enter(r *request, turns chan struct{}) (leave func(), _ *refusal) {
	timer := time.NewTimer(waitFor)
	defer timer.Stop()
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-r.Context().Done():
	case <-timer.C:
	}
	return nil, refuse(http.StatusServiceUnavailable, adminapi.CodeBusy, "too many requests at once; try again")
}

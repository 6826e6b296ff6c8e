package consumer_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// A stream that ends otherwise than complete says so, or is seen to be cut.
func TestAStreamThatFailsDoesNotLookComplete(t *testing.T) {
	a := newAdminRig(t)
	r := a.ended("A-1", dedup.Success)
	broken := fmt.Errorf("the disk is gone")
	a.store.scan = func(context.Context) iter.Seq2[dedup.Record, error] {
		return func(yield func(dedup.Record, error) bool) {
			_ = yield(r, nil) && yield(dedup.Record{}, broken)
		}
	}
	w, _ := a.ask("GET", "/v1/records", nil)
	if got := a.raw(w); len(got) != 2 || got[1].Error == nil || !strings.Contains(string(got[1].Error.Message), "disk") {
		t.Errorf("%s", w.Body)
	}
	unknown := r
	unknown.State = dedup.Tombstone + 1 // which has no name
	a.store.scan = func(context.Context) iter.Seq2[dedup.Record, error] {
		return func(yield func(dedup.Record, error) bool) { _ = yield(r, nil) && yield(unknown, nil) }
	}
	w, _ = a.ask("GET", "/v1/records", nil)
	if got := a.raw(w); len(got) != 2 || got[1].Error == nil {
		t.Errorf("%s", w.Body)
	}
	a.store.scan = func(context.Context) iter.Seq2[dedup.Record, error] {
		return func(yield func(dedup.Record, error) bool) {
			_ = yield(r, nil)
			panic("page 7")
		}
	}
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("%v", v)
			}
		}()
		w = httptest.NewRecorder()
		a.handler.ServeHTTP(w, a.request("GET", "/v1/records", nil))
	}()
	if strings.Contains(w.Body.String(), `"end"`) || !strings.Contains(a.log.String(), "page 7") {
		t.Errorf("%s; log: %s", w.Body, a.log)
	}
	w, _ = a.ask("GET", "/v1/browse?topic=orders.billing.dlq", nil)
	a.lines(w)
	a.broker.RemoveTopic("orders.billing.dlq")
	w, _ = a.ask("GET", "/v1/browse?topic=orders.billing.dlq", nil)
	if got := a.raw(w); len(got) != 1 || got[0].Error == nil || got[0].Error.Code != adminapi.CodeNoDestination {
		t.Errorf("%s", w.Body)
	}
}

// A scan may find nothing for a long time, and must not go on for ever.
func TestASilentStreamSaysThatItGoesOnUntilItsHourIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdminRig(t)
		a.store.scan = func(ctx context.Context) iter.Seq2[dedup.Record, error] {
			return func(yield func(dedup.Record, error) bool) {
				<-ctx.Done()
				yield(dedup.Record{}, ctx.Err())
			}
		}
		began := time.Now()
		w, _ := a.ask("GET", "/v1/records", nil)
		took := time.Since(began)
		got := a.raw(w)
		if last := got[len(got)-1]; took != time.Hour || last.Error == nil || !strings.Contains(string(last.Error.Message), "hour") {
			t.Errorf("after %v: %+v", took, last)
		}
		if n := len(got) - 1; n < 300 || !got[0].Alive {
			t.Errorf("it was said %d times that it goes on", n)
		}
	})
}

func TestStreamsAtOnceAreBoundedAndOthersAreStillServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdminRig(t)
		over := make(chan struct{})
		a.store.scan = func(context.Context) iter.Seq2[dedup.Record, error] {
			return func(func(dedup.Record, error) bool) { <-over }
		}
		for range 8 {
			go a.handler.ServeHTTP(httptest.NewRecorder(), a.request("GET", "/v1/records", nil))
		}
		synctest.Wait()
		if w, f := a.ask("GET", "/v1/records", nil); w.Code != http.StatusServiceUnavailable || f.Code != adminapi.CodeBusy || w.Header().Get("Retry-After") == "" {
			t.Errorf("the ninth: %d %+v", w.Code, f)
		}
		for _, path := range []string{"/v1/consumer", "/v1/pause"} {
			if w, _ := a.ask("GET", path, nil); w.Code != http.StatusOK {
				t.Errorf("%s meanwhile: %d", path, w.Code)
			}
		}
		go func() {
			time.Sleep(5 * time.Second)
			close(over)
		}()
		if w, _ := a.ask("GET", "/v1/records", nil); w.Code != http.StatusOK {
			t.Errorf("the ninth, when the first end: %d", w.Code)
		}
	})
}

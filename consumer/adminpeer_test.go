package consumer_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
	"github.com/onceward/onceward/internal/memnet"
)

// listening serves the interface in a bubble, and dials it.
func (a *adminRig) listening() (dial func() net.Conn) {
	a.t.Helper()
	n := memnet.New()
	l, err := n.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		a.t.Fatal(err)
	}
	server := &http.Server{Handler: a.handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go server.Serve(l)
	a.t.Cleanup(func() { server.Close() })
	return func() net.Conn {
		c, err := n.Dial("tcp", "127.0.0.1:8080")
		if err != nil {
			a.t.Fatal(err)
		}
		a.t.Cleanup(func() { c.Close() })
		return c
	}
}

const heading = "Host: 127.0.0.1:8080\r\nContent-Type: application/json\r\n"

func TestAPeerThatSendsNoBodyIsNotWaitedForLongerThanAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdminRig(t)
		dial := a.listening()
		began := time.Now()
		var slow []net.Conn
		for range 8 { // all turns that there are
			c := dial()
			fmt.Fprintf(c, "POST /v1/pause HTTP/1.1\r\n%sContent-Length: 100\r\n\r\n{\"why\":", heading)
			slow = append(slow, c)
		}
		synctest.Wait()
		if w, _ := a.ask("GET", "/v1/consumer", nil); w.Code != http.StatusOK {
			t.Errorf("meanwhile: %d", w.Code)
		}
		if w, f := a.ask("POST", "/v1/pause", adminapi.PauseRequest{}); f.Code != adminapi.CodeBusy {
			t.Errorf("meanwhile: %d %+v", w.Code, f)
		}
		for _, c := range slow {
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || r.StatusCode != http.StatusRequestTimeout {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("it took %v", took)
		}
		if w, _ := a.ask("POST", "/v1/pause", adminapi.PauseRequest{}); w.Code != http.StatusOK {
			t.Errorf("afterwards: %d", w.Code)
		}
	})
}

func TestAPeerThatTakesNothingIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdminRig(t)
		r := a.ended("A-1", dedup.Success)
		r.Result = make([]byte, 60_000)
		stopped := make(chan struct{})
		a.store.scan = func(context.Context) iter.Seq2[dedup.Record, error] {
			return func(yield func(dedup.Record, error) bool) {
				defer close(stopped)
				for yield(r, nil) {
				}
			}
		}
		dial := a.listening()
		c := dial()
		began := time.Now()
		fmt.Fprintf(c, "GET /v1/records HTTP/1.1\r\n%s\r\n", heading)
		<-stopped
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("it was given up after %v", took)
		}
	})
}

// A request may end while the next one comes on the same connection.
func TestAConnectionServesManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdminRig(t)
		a.ended("A-1", dedup.Success)
		c := a.listening()()
		in := bufio.NewReader(c)
		for _, path := range []string{"/v1/records", "/v1/consumer", "/v1/records", "/v1/letters"} {
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\n%s\r\n", path, heading)
			r, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r.Body)
			if err != nil || r.StatusCode != http.StatusOK || !strings.HasSuffix(string(body), "}\n") {
				t.Errorf("%s: %d %q, %v", path, r.StatusCode, body, err)
			}
			time.Sleep(10 * time.Minute) // longer than any deadline of the last one
		}
	})
}

// Whatever is asked, the answer is JSON with a code, or what was asked for.
func FuzzAnyRequestIsAnswered(f *testing.F) {
	for _, body := range []string{
		"", "{}", `{"keys":[{"consumer":"billing","scope":"order.create","id":"A-1"}]}`, `{"ids":["l1"]}`, `{"topics":["orders"]}`,
		`{"messages":[{"topic":"orders","value":""}]}`, `{"scope":"order.create","why":"x"}`,
		`{"ops":[{"kind":"import","key":{"consumer":"billing","scope":"order.create","id":"B-1"},"operator":{"seen":{"state":"absent"}}}]}`,
		`{"ops":[{"kind":"move_letter","key":{"consumer":"billing","scope":"order.create","id":"A-1"},"letter":{"letter":{"id":"l1","state":"none"},"from":"open","to":"resolved"}}]}`,
		`{"ops":[{"kind":"reopen","key":{"consumer":"billing","scope":"order.create","id":"A-1"},"operator":{"seen":{"state":"failed"},"job":"j","decide":[{"effect":"x","verdict":"happened"}]}}]}`,
	} {
		for i := range 8 {
			f.Add(uint8(i), "state=failed&limit=1", body)
		}
	}
	f.Add(uint8(6), "topic=orders&offset=0:0&since=2000-01-01T00:00:00Z", "")
	f.Fuzz(func(t *testing.T, which uint8, query, body string) {
		paths := [...]string{"consumer", "records", "letters", "apply", "publish", "inspect", "browse", "pause"}
		a := newAdminRig(t, tokens...)
		a.token = tokens[int(which/8)%len(tokens)].Token
		a.ended("A-1", dedup.Terminal)
		a.noted("l1", "A-1", 1)
		for _, method := range []string{"GET", "POST", "DELETE"} {
			q := httptest.NewRequest(method, "/v1/"+paths[which%8], strings.NewReader(body))
			if method == "GET" {
				q.URL.RawQuery = query
			}
			q.Header.Set("Content-Type", "application/json")
			q.Header.Set("Authorization", "Bearer "+a.token)
			w := a.serve(q)
			if w.Code != http.StatusOK {
				a.fault(w)
				continue
			}
			if w.Header().Get("Content-Type") != "application/x-ndjson" {
				continue
			}
			lines := bytes.Split(bytes.TrimSuffix(w.Body.Bytes(), []byte("\n")), []byte("\n"))
			for i, text := range lines {
				var line adminapi.Line
				if err := adminapi.Decode(text, &line); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				if last := line.End || line.Error != nil; last != (i == len(lines)-1) {
					t.Fatalf("line %d of %d: %s", i, len(lines), text)
				}
			}
		}
	})
}

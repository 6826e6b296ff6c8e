package cli_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
)

func TestWhoMovesLettersIsToldHowManyWereMovedBeforeItFailed(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	for _, id := range []string{"ord-1", "ord-2", "ord-3"} {
		r.publish("created", order(id, "refuse"))
	}
	r.letters(3)
	at, err := url.Parse(r.via)
	if err != nil {
		t.Fatal(err)
	}
	var changes atomic.Int32
	to := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(at) }}
	breaks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/apply") && changes.Add(1) > 2 {
			http.Error(w, "the disk is full", http.StatusInternalServerError)
			return
		}
		to.ServeHTTP(w, q)
	}))
	defer breaks.Close()
	all := ids(t, []string{"--via", r.via})
	call(t, "dlq", "discard", all, "--reason", "test data", "--yes", "--via", breaks.URL).want(t, cli.Partly).says(t, "500", "2 of 3 letters are discarded", "again")
	call(t, "dlq", "discard", all, "--reason", "test data", "--yes", "--via", r.via).want(t, cli.Done).says(t, "3 of 3 letters are discarded")
}

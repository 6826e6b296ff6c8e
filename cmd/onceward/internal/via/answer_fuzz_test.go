package via

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/internal/adminapi"
)

// A server may say anything.
func FuzzNoAnswerBreaksTheClient(f *testing.F) {
	record := `{"record":{"key":{"consumer":"billing","scope":"order.create","id":"A-1"},"state":"succeeded"}}`
	for _, body := range []string{
		"", "{}", "\n\n", record + "\n" + `{"end":true,"count":1}` + "\n", `{"lane":{"topic":"t"}}` + "\n" + `{"message":{"offset":1}}` + "\n",
		`{"letter":{"state":"open","id":"l1"}}`, `{"answer":{"kind":"done","state":"absent"}}`, `{"error":{"code":"x","message":"\u001b"}}`,
		`{"errors":[null]}`, `{"topics":[{"topic":"t","messages":-1}]}`, `{"changed":true}`, `{"alive":true}`,
	} {
		f.Add(uint16(200), body, "1")
		f.Add(uint16(403), body, "1")
		f.Add(uint16(200), body, "9")
	}
	info, err := adminapi.Encode(&adminapi.Consumer{Name: "billing"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status uint16, body, version string) {
		if status < 200 || status > 599 || status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout {
			return // no final status; and those that are asked again, for seconds
		}
		if strings.Contains(body, string(adminapi.CodeBusy)) {
			return // as those
		}
		c, err := Connect(t.Context(), "http://127.0.0.1:8080", Options{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			answer := httptest.NewRecorder()
			if r.URL.Path == "/v1/consumer" {
				answering(200, ours, string(info)).ServeHTTP(answer, r)
			} else {
				answering(int(status), map[string]string{adminapi.VersionHeader: version, "Content-Type": "application/json"}, body).ServeHTTP(answer, r)
			}
			return answer.Result(), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		said := func(err error) {
			if err != nil && (strings.ContainsAny(err.Error(), "\x1b\n\x00\r") || len(err.Error()) > 8<<10) {
				t.Errorf("%q", err)
			}
		}
		keys := []dedup.Key{keyOf("A-1")}
		records, err := c.Lookup(t.Context(), keys)
		said(err)
		letters, err2 := c.Letters(t.Context(), []string{"l1"})
		said(err2)
		answers, err3 := c.Apply(t.Context(), []dedup.Op{{Kind: dedup.Unlock, Key: keys[0], Operator: &dedup.OperatorOp{}}})
		said(err3)
		if err == nil && len(records) != 1 || err2 == nil && len(letters) != 1 || err3 == nil && len(answers) != 1 {
			t.Errorf("%v, %v, %v", records, letters, answers)
		}
		for _, err := range c.Publish(t.Context(), []brokers.Outgoing{{Topic: topic}}) {
			said(err)
		}
		for _, err := range c.Scan(t.Context(), "") {
			said(err)
		}
		for d, err := range c.Browse(t.Context(), topic, brokers.From{}) {
			if said(err); err == nil && d.Lane == nil {
				t.Error("a message that lies nowhere")
			}
		}
		_, err = c.Inspect(t.Context(), []string{topic})
		said(err)
		_, err = c.Pause(t.Context(), "", "")
		said(err)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

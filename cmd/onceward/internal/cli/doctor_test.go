package cli_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
)

func TestTheDoctorFindsWhatLosesMessages(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "fine"))
	r.quiet()
	golden(t, "doctor.json", call(t, "doctor", "--json", "--via", r.via).want(t, cli.Done).stdout)

	s, err := r.js.Stream(t.Context(), "ORDERS_DLQ")
	if err != nil {
		t.Fatal(err)
	}
	config := s.CachedInfo().Config
	config.Discard, config.MaxMsgs = jetstream.DiscardOld, 1000
	if _, err := r.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	call(t, "doctor", "--via", r.via).want(t, cli.Partly).shows(t, "ERROR", "oldest go", "nats stream edit ORDERS_DLQ --discard=new")
	r.stop()
	call(t, "doctor", r.offline()).want(t, cli.Partly).says(t, "not checked: routes").shows(t, "oldest go")
	if err := r.js.DeleteStream(t.Context(), "ORDERS_RETRY"); err != nil {
		t.Fatal(err)
	}
	call(t, "doctor", r.offline()).want(t, cli.Partly).shows(t, "does not exist", "nats stream add ORDERS_RETRY --subjects='ORDERS_RETRY.>'")
}

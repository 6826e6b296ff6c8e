package natstest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/internal/natstest"
)

func addStream(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}}); err != nil {
		t.Fatal(err)
	}
}

func TestAServerIsGoneWithItsTest(t *testing.T) {
	var url string
	t.Run("while it runs", func(t *testing.T) {
		s := natstest.Serve(t, func(o *server.Options) { o.Username, o.Password = "u", "right" })
		url = s.ClientURL()
		addStream(t, natstest.Client(t, url, nats.UserInfo("u", "right")))
		if nc, err := nats.Connect(url); err == nil {
			nc.Close()
			t.Error("the change of its options is lost")
		}
	})
	if nc, err := nats.Connect(url, nats.UserInfo("u", "right")); err == nil {
		nc.Close()
		t.Error("it still answers")
	}
}

func TestAServerInABubbleKeepsItsStreamsWhileDaysPass(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := natstest.Inside(t, dir)
		addStream(t, natstest.Client(t, "nats://inside:4222", nats.InProcessServer(p)))
		p.Stop()
		if nc, err := nats.Connect("nats://inside:4222", nats.InProcessServer(p)); err == nil {
			nc.Close()
			t.Error("a stopped server answers")
		}
		time.Sleep(10 * 24 * time.Hour)
		p.Start()
		js := natstest.Client(t, "nats://inside:4222", nats.InProcessServer(p))
		if s, err := js.Stream(t.Context(), "ORDERS"); err != nil || s.CachedInfo().Created.Before(began) || time.Since(began) < 240*time.Hour {
			t.Errorf("stream %+v, %v after %v", s, err, time.Since(began))
		}
	})
}

package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/internal/natstest"
)

// shown is what a browse shows, in one line.
func shown(all iter.Seq2[*brokers.Delivery, error]) (string, error) {
	var words []string
	for d, err := range all {
		if err != nil {
			return strings.Join(words, " "), err
		}
		words = append(words, string(d.Value))
	}
	return strings.Join(words, " "), nil
}

func newStream(t *testing.T, js jetstream.JetStream, config jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	s, err := js.CreateStream(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func store(t *testing.T, js jetstream.JetStream, subject string, values ...string) {
	t.Helper()
	for _, v := range values {
		if _, err := js.Publish(t.Context(), subject, []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
}

// consumers are the names of a stream's consumers.
func consumers(t *testing.T, s jetstream.Stream) (names []string) {
	t.Helper()
	list := s.ConsumerNames(t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestABrowseIsOfAStreamOrOfSubjects(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	for _, c := range []jetstream.StreamConfig{
		{Name: "ORDERS", Subjects: []string{"ORDERS.>"}}, {Name: "mail", Subjects: []string{"post.*", "plain", "ORDERSX"}}, {Name: "plain", Subjects: []string{"other.>"}},
	} {
		newStream(t, js, c)
	}
	for i := range 3 {
		store(t, js, "ORDERS.eu", fmt.Sprint("eu", i))
		store(t, js, "ORDERS.us.east", fmt.Sprint("us", i))
	}
	store(t, js, "post.in", "in")
	store(t, js, "plain", "shadowed")
	store(t, js, "ORDERSX", "bare")
	store(t, js, "other.x", "other")
	b := connect(t, Config{URL: url})
	for _, c := range []struct{ name, want string }{
		{"ORDERS", "eu0 us0 eu1 us1 eu2 us2"}, {"ORDERS.>", "eu0 us0 eu1 us1 eu2 us2"}, {"ORDERS.eu", "eu0 eu1 eu2"},
		{"ORDERS.*.east", "us0 us1 us2"}, {"ORDERS.nobody", ""}, {"post.in", "in"}, {"post.*", "in"}, {"ORDERSX", "bare"},
		{"mail", "in shadowed bare"}, {"plain", "other"}, {"other.x", "other"},
	} {
		for d, err := range b.Browse(t.Context(), c.name, brokers.From{}) {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			} else if d.Subject == "" || d.Lane.Topic == "" || !strings.HasPrefix(d.Lane.Source, d.Lane.Topic+"@") {
				t.Errorf("%s: subject %q, lane %+v", c.name, d.Subject, d.Lane)
			}
		}
		if got, err := shown(b.Browse(t.Context(), c.name, brokers.From{})); got != c.want || err != nil {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	var fault *brokers.StartError
	if _, err := shown(b.Browse(t.Context(), "*.*", brokers.From{})); !errors.As(err, &fault) {
		t.Errorf("a wildcard of several streams: %v", err)
	}
	for _, name := range []string{"nowhere.x", "a..b", "a.>.b", "a b", ".", "x*y"} {
		if _, err := shown(b.Browse(t.Context(), name, brokers.From{})); !errors.Is(err, brokers.ErrNoDestination) {
			t.Errorf("%s: %v", name, err)
		}
	}
	infos, err := b.Inspect(t.Context(), []string{"ORDERS.eu", "ORDERS", "ORDERS.*", "nowhere.x"})
	if err != nil || infos[0].Messages != 3 || infos[1].Messages != 6 || infos[2].Messages != -1 || !infos[3].Missing {
		t.Errorf("%+v, %v", infos, err)
	}
}

// The stream's end at the beginning counts, not the subject's.
func TestABrowseOfASubjectShowsNothingThatComesLater(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	newStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}})
	publishNumbers(t, js, "ORDERS", 0, 2*reelFirst)
	store(t, js, "ORDERS.y", "other")
	var got []string
	for d, err := range connect(t, Config{URL: url}).Browse(t.Context(), "ORDERS.x", brokers.From{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(d.Value))
		if len(got) == 1 {
			store(t, js, "ORDERS.x", "later")
		}
	}
	if len(got) != 2*reelFirst {
		t.Errorf("%d, the last one is %q", len(got), got[len(got)-1])
	}
}

func TestAMessageThatIsLostOnItsWayToABrowseIsNoticed(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	newStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}})
	publishNumbers(t, js, "ORDERS", 0, 10)
	l := &look{b: connect(t, Config{URL: url}), name: "ORDERS"}
	if err := l.place(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := l.reel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if m, err := r.read(t.Context()); err != nil || m.sequence != 1 {
		t.Fatal(m.sequence, err)
	}
	<-r.arrived
	if m, err := r.read(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("message %d after 1, %v", m.sequence, err)
	}
}

func TestABrowseLeavesNothingAtTheServer(t *testing.T) {
	srv := natstest.Serve(t)
	js := natstest.Client(t, srv.ClientURL())
	s := newStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}})
	publishNumbers(t, js, "ORDERS", 0, 2000)
	b := connect(t, Config{URL: srv.ClientURL()})
	subscriptions := b.nc.NumSubscriptions()
	for _, stop := range []int{1, 100, 5000} {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		for _, err := range b.Browse(ctx, "ORDERS", brokers.From{}) {
			if n++; n == stop {
				break
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if stop > 2000 && n == 1000 {
				cancel()
			}
		}
		cancel()
		if left := consumers(t, s); len(left) > 0 {
			t.Errorf("stopped after %d: %v", n, left)
		}
	}
	if n := b.nc.NumSubscriptions(); n > subscriptions+1 { // nats.go's own, for answers
		t.Errorf("%d subscriptions, %d before", n, subscriptions)
	}
	// And after a crash for half a minute only.
	for _, err := range b.Browse(t.Context(), "ORDERS", brokers.From{}) {
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Consumer(t.Context(), consumers(t, s)[0])
		if err != nil {
			t.Fatal(err)
		}
		if c := info.CachedInfo().Config; c.InactiveThreshold != 30*time.Second || !c.MemoryStorage || c.Durable != "" {
			t.Errorf("%+v", c)
		}
		break
	}
}

// Reading with a consumer would take the messages from whom they are for.
func TestABrowseTakesNothingFromAWorkQueue(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	for _, retention := range []jetstream.RetentionPolicy{jetstream.WorkQueuePolicy, jetstream.InterestPolicy} {
		name := "Q" + retention.String()
		s := newStream(t, js, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Retention: retention})
		c, err := js.CreateConsumer(t.Context(), name, jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			store(t, js, name+".a", fmt.Sprint("a", i))
			store(t, js, name+".b", "")
		}
		b := connect(t, Config{URL: url})
		var since time.Time
		n := 0
		for d, err := range b.Browse(t.Context(), name+".a", brokers.From{}) {
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprint("a", n); string(d.Value) != want {
				t.Fatalf("%q, want %q", d.Value, want)
			}
			if n++; n == 41 {
				since = d.Time
			}
		}
		if n != 50 {
			t.Errorf("%s: %d of 50", name, n)
		}
		if got, err := shown(b.Browse(t.Context(), name+".a", brokers.From{Since: since})); got != "a40 a41 a42 a43 a44 a45 a46 a47 a48 a49" || err != nil {
			t.Errorf("%s, since: %q, %v", name, got, err)
		}
		if info, err := s.Info(t.Context()); err != nil || info.State.Msgs != 100 || info.State.Consumers != 1 {
			t.Errorf("%s: %+v, %v", name, info.State, err)
		}
		batch, err := c.Fetch(100, jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for range batch.Messages() {
			got++
		}
		if got != 100 {
			t.Errorf("%s: the worker gets %d of 100", name, got)
		}
		infos, err := b.Inspect(t.Context(), []string{name})
		if err != nil || !infos[0].ConsumedOnce || infos[0].Messages != 100 {
			t.Errorf("%+v, %v", infos, err)
		}
	}
}

func TestABrowseOutlivesAKilledServer(t *testing.T) {
	p := startProcess(t)
	js := natstest.Client(t, p.url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	for _, retention := range []jetstream.RetentionPolicy{jetstream.LimitsPolicy, jetstream.WorkQueuePolicy} {
		name := "S" + retention.String()
		newStream(t, js, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Retention: retention})
		const n = 3000
		publishNumbers(t, js, name, 0, n)
		b := connect(t, Config{URL: p.url, Options: []nats.Option{nats.ReconnectWait(50 * time.Millisecond)}})
		next := 0
		for d, err := range b.Browse(t.Context(), name, brokers.From{}) {
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprint(next); string(d.Value) != want {
				t.Fatalf("%s after %d", d.Value, next-1)
			}
			if next++; next == n/2 {
				p.kill()
				p.start(t)
			}
		}
		if next != n {
			t.Errorf("%s: %d of %d", name, next, n)
		}
	}
}

func TestABrowseGivesUpAServerThatStaysAwayForHalfAMinute(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		srv := startInside(t, dir)
		b := srv.connect(Config{})
		if _, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}}); err != nil {
			t.Fatal(err)
		}
		publishNumbers(t, b.js, "ORDERS", 0, 1000)
		var began time.Time
		var last error
		n := 0
		for _, err := range b.Browse(t.Context(), "ORDERS", brokers.From{}) {
			last = err
			if n++; n == 10 {
				srv.Stop()
				began = time.Now()
			}
		}
		if took := time.Since(began); last == nil || took < healing || took > healing+10*time.Second || n == 1000 {
			t.Errorf("after %v and %d messages: %v", took, n, last)
		}
		// Until then it waits.
		time.AfterFunc(25*time.Second, srv.Start)
		if got, err := shown(b.Browse(t.Context(), "ORDERS", brokers.From{})); len(strings.Fields(got)) != 1000 || err != nil {
			t.Errorf("%d of 1000, %v", len(strings.Fields(got)), err)
		}
		b.Close()
		if _, err := shown(b.Browse(t.Context(), "ORDERS", brokers.From{})); !errors.Is(err, brokers.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		srv.Stop()
		synctest.Wait()
	})
}

// What was there at the beginning and is not any more is not waited for.
func TestABrowseEndsWhereTheRestWasDeleted(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	s := newStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}})
	b := connect(t, Config{URL: url})
	for _, c := range []struct {
		name string
		harm func() error
		want string
	}{
		{"the rest", func() error { return s.Purge(t.Context()) }, ""},
		{"the middle", func() error { return s.Purge(t.Context(), jetstream.WithPurgeSubject("ORDERS.y")) }, "last"},
		{"the consumer", func() error { return js.DeleteConsumer(t.Context(), "ORDERS", consumers(t, s)[0]) }, "y y last"},
	} {
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		publishNumbers(t, js, "ORDERS", 0, reelFirst)
		store(t, js, "ORDERS.y", "y", "y")
		store(t, js, "ORDERS.x", "last")
		var after []string
		n := 0
		began := time.Now()
		for d, err := range b.Browse(t.Context(), "ORDERS", brokers.From{}) {
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if n++; n > reelFirst {
				after = append(after, string(d.Value))
			} else if n == reelFirst {
				if err := c.harm(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := strings.Join(after, " "); got != c.want || time.Since(began) > 2*reelSilence {
			t.Errorf("%s: %q after %v", c.name, got, time.Since(began))
		}
	}
	n := 0
	var last error
	for _, err := range b.Browse(t.Context(), "ORDERS", brokers.From{}) {
		if last = err; n == 0 {
			if err := js.DeleteStream(t.Context(), "ORDERS"); err != nil {
				t.Fatal(err)
			}
			newStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}})
			publishNumbers(t, js, "ORDERS", 0, 500)
		}
		n++
	}
	if !errors.Is(last, brokers.ErrNoDestination) || n > reelFirst+2 {
		t.Errorf("made again: %v, after %d", last, n)
	}
}

func TestABrowseNeedsFewRights(t *testing.T) {
	const secret = "secret"
	allow := func(subjects ...string) *server.Permissions {
		return &server.Permissions{Publish: &server.SubjectPermission{Allow: append(subjects, "$JS.API.INFO")}}
	}
	srv := natstest.Serve(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: secret},
			{Username: "consumer", Password: secret, Permissions: allow("$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.CREATE.ORDERS_DLQ.>", "$JS.API.CONSUMER.MSG.NEXT.ORDERS_DLQ.*", "$JS.API.CONSUMER.DELETE.ORDERS_DLQ.*")},
			{Username: "picker", Password: secret, Permissions: allow("$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.ORDERS_DLQ")},
			{Username: "blind", Password: secret, Permissions: allow("$JS.API.STREAM.INFO.*")},
			{Username: "nobody", Password: secret, Permissions: allow()},
		}
	})
	as := func(user string) string { return strings.Replace(srv.ClientURL(), "://", "://"+user+":"+secret+"@", 1) }
	js := natstest.Client(t, as("admin"))
	s := newStream(t, js, jetstream.StreamConfig{Name: "ORDERS_DLQ", Subjects: []string{"ORDERS_DLQ.*"}})
	store(t, js, "ORDERS_DLQ.billing", "a", "b")
	for _, c := range []struct {
		user string
		want string
		err  error
	}{{"consumer", "a b", nil}, {"picker", "a b", nil}, {"blind", "", brokers.ErrUnauthorized}, {"nobody", "", brokers.ErrUnauthorized}} {
		b := connect(t, Config{URL: as(c.user)})
		began := time.Now()
		got, err := shown(b.Browse(t.Context(), "ORDERS_DLQ.billing", brokers.From{}))
		if got != c.want || !errors.Is(err, c.err) || c.err == nil && err != nil || time.Since(began) > answering {
			t.Errorf("%s: %q, %v after %v", c.user, got, err, time.Since(began))
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error has the password", c.user)
		}
		infos, err := b.Inspect(t.Context(), []string{"ORDERS_DLQ.billing"})
		if hidden := c.user == "nobody"; err != nil || infos[0].Hidden != hidden || infos[0].Missing || !hidden && infos[0].Messages != 2 {
			t.Errorf("%s: %+v, %v", c.user, infos, err)
		}
	}
	if left := consumers(t, s); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A stream that has as many consumers as it may have can be looked at.
func TestABrowseNeedsNoConsumer(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	newStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}, MaxConsumers: 1})
	if _, err := js.CreateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	store(t, js, "ORDERS.x", "a", "b")
	if got, err := shown(connect(t, Config{URL: url}).Browse(t.Context(), "ORDERS", brokers.From{})); got != "a b" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAMessageLargerThanARequestIsShown(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	newStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}})
	store(t, js, "ORDERS.x", "a", strings.Repeat("x", 100<<10), "b")
	b := connect(t, Config{URL: url})
	l := &look{b: b, name: "ORDERS"}
	if err := l.place(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := l.reel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	r.maxBytes = 1000
	for i := range 3 {
		m, err := r.read(t.Context())
		if err != nil || m.sequence != uint64(i+1) || m.last != (i == 2) {
			t.Fatalf("%d: %d %v %v", i, m.sequence, m.last, err)
		}
	}
}

// A consumer beside a replica that is behind says too early that this is all.
func TestTheEndOfAReplicatedStreamIsItsLeaders(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	newStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"ORDERS.>"}})
	store(t, js, "ORDERS.x", "a", "b")
	store(t, js, "ORDERS.y", "c")
	l := &look{b: connect(t, Config{URL: url}), name: "ORDERS.x"}
	if err := l.place(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.replicated = true
	for _, c := range []struct {
		next, end uint64
		done      bool
	}{{2, 3, false}, {3, 3, true}, {2, 1, true}} {
		l.next, l.end = c.next, c.end
		if err := l.confirm(t.Context()); (err == nil) != c.done || err != nil && final(err) {
			t.Errorf("from %d to %d: %v", c.next, c.end, err)
		}
	}
}

func TestAStreamIsDescribed(t *testing.T) {
	url := natstest.Serve(t).ClientURL()
	js := natstest.Client(t, url)
	newStream(t, js, jetstream.StreamConfig{
		Name: "ORDERS", Subjects: []string{"ORDERS.>"}, MaxAge: time.Hour, MaxBytes: 1 << 20, MaxMsgs: 1000, MaxMsgSize: 5000, Storage: jetstream.MemoryStorage,
	})
	newStream(t, js, jetstream.StreamConfig{Name: "KEEP", Subjects: []string{"KEEP.>"}, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 5})
	b := connect(t, Config{URL: url})
	got, err := b.Inspect(t.Context(), []string{"ORDERS", "KEEP.x"})
	if err != nil {
		t.Fatal(err)
	}
	want := []brokers.TopicInfo{
		{Topic: "ORDERS", Partitions: 1, Replicas: 1, InSync: 1, MaxAge: time.Hour, MaxBytes: 1 << 20, MaxCount: 1000, MaxMessage: 5000, DropsOld: true, InMemory: true},
		{Topic: "KEEP.x", Partitions: 1, Replicas: 1, InSync: 1, MaxCount: 5, MaxMessage: 1 << 20, DropsOld: true},
	}
	for i := range got {
		got[i].Identity = ""
		if got[i] != want[i] {
			t.Errorf("%+v,\nwant %+v", got[i], want[i])
		}
	}
}

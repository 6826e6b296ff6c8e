package brokertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
)

func (w *world) browser(t *testing.T) (brokers.Broker, brokers.Browser) {
	t.Helper()
	b := w.connect(t)
	browser, ok := b.(brokers.Browser)
	if !ok {
		t.Fatalf("%T is no brokers.Browser", b)
	}
	return b, browser
}

// browse is all that a topic shows.
func (w *world) browse(t *testing.T, b brokers.Browser, topic string, from brokers.From) (ds []*brokers.Delivery) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), w.patience())
	defer cancel()
	for d, err := range b.Browse(ctx, topic, from) {
		if err != nil {
			t.Fatalf("browse %s: %v, after %s", topic, err, values(ds))
		}
		ds = append(ds, d)
	}
	return ds
}

func browseOrder(t *testing.T, w *world) {
	const n = 3000
	topic := w.h.NewTopic(t, 3)
	messages := make([]brokers.Outgoing, n)
	for i := range messages {
		messages[i] = brokers.Outgoing{Key: fmt.Appendf(nil, "k%d", i%50), Value: fmt.Appendf(nil, "%d", i)}
	}
	w.h.Produce(t, topic, messages...)
	b, browser := w.browser(t)
	source := w.open(t, b, w.spec(topic)).receive(t, 1)[0].Lane.Source
	for range 2 { // what was shown is there again
		seen := map[string]bool{}
		var lanes []*brokers.Lane
		counts := map[*brokers.Lane]int64{}
		last := int64(-1)
		for _, d := range w.browse(t, browser, topic, brokers.From{}) {
			l := d.Lane
			if len(lanes) == 0 || lanes[len(lanes)-1] != l {
				if slices.ContainsFunc(lanes, func(x *brokers.Lane) bool { return x.Partition == l.Partition }) {
					t.Fatalf("partition %d comes twice", l.Partition)
				}
				lanes, last = append(lanes, l), -1
			}
			if d.Offset <= last || seen[string(d.Value)] {
				t.Fatalf("%q at offset %d of partition %d after %d", d.Value, d.Offset, l.Partition, last)
			}
			last, seen[string(d.Value)] = d.Offset, true
			counts[l]++
		}
		if len(seen) != n {
			t.Fatalf("%d of %d", len(seen), n)
		}
		for l, count := range counts {
			if l.Topic != topic || l.Retry || l.Mark != "" || l.Source != source || l.Backlog != count {
				t.Errorf("lane %+v of %d messages, whose source is %q to a consumer", l, count, source)
			}
		}
	}
}

func browseBytes(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	messages, keys := w.samples(t)
	before := time.Now().Add(-time.Minute)
	w.h.Produce(t, topic, messages...)
	_, browser := w.browser(t)
	got := w.browse(t, browser, topic, brokers.From{})
	if len(got) != len(messages) {
		t.Fatalf("%d of %d", len(got), len(messages))
	}
	for i, d := range got {
		m := messages[i]
		if !reflect.DeepEqual(d.Value, m.Value) || !reflect.DeepEqual(d.Headers, m.Headers) || keys && !reflect.DeepEqual(d.Key, m.Key) {
			t.Errorf("%d: got key %q value %#v headers %q,\nwant %q %#v %q", i, d.Key, d.Value, d.Headers, m.Key, m.Value, m.Headers)
		}
		if d.Time.Before(before) || d.Time.After(time.Now().Add(time.Minute)) {
			t.Errorf("%d: stored at %v", i, d.Time)
		}
	}
}

// browsePublished: what was published through the adapter is shown as it was,
// whatever form the broker gives it.
func browsePublished(t *testing.T, w *world) {
	b, _, _, to := w.destinations(t)
	browser := b.(brokers.Browser)
	one := int32(0)
	letters := []brokers.Outgoing{
		{Value: []byte("plain")},
		{Key: []byte("k\xff"), Value: nil, Headers: []brokers.Header{{Key: "z", Value: []byte("\r\n\xff\x00 ")}, {Key: "a", Value: nil}, {Key: "z", Value: []byte{}}}},
		{Key: []byte{}, Value: []byte{}, Headers: []brokers.Header{{Key: "Nats-Msg-Id", Value: []byte("of old")}, {Key: "with: space", Value: []byte("1")}}},
	}
	for i := range letters {
		letters[i].Topic, letters[i].Partition, letters[i].ID = to.DeadLetter, &one, fmt.Sprint("letter", i, w.consumer)
	}
	allNil(t, b.Publish(t.Context(), letters), len(letters))
	got := w.browse(t, browser, to.DeadLetter, brokers.From{})
	if len(got) != len(letters) {
		t.Fatalf("%d of %d", len(got), len(letters))
	}
	for i, d := range got {
		m := letters[i]
		if !reflect.DeepEqual(d.Key, m.Key) || !reflect.DeepEqual(d.Value, m.Value) || !reflect.DeepEqual(d.Headers, m.Headers) {
			t.Errorf("%d: got key %q value %#v headers %q,\nwant %q %#v %q", i, d.Key, d.Value, d.Headers, m.Key, m.Value, m.Headers)
		}
	}
}

func browseFrom(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 2)
	w.h.Produce(t, topic, numbered("old", 4)...)
	between := w.settledClock(t)
	w.h.Produce(t, topic, numbered("new", 3)...)
	_, browser := w.browser(t)
	all := w.browse(t, browser, topic, brokers.From{})
	if values(all) != "[old0 old1 old2 old3 new0 new1 new2]" {
		t.Fatalf("everything: %s", values(all))
	}
	at := func(i int) map[int32]int64 { return map[int32]int64{0: all[i].Offset} }
	end := map[int32]int64{0: all[6].Offset + 1}
	for _, c := range []struct {
		name string
		from brokers.From
		want string
	}{
		{"since", brokers.From{Since: between}, "[new0 new1 new2]"},
		{"since the beginning", brokers.From{Since: between.Add(-time.Hour)}, values(all)},
		{"since later", brokers.From{Since: time.Now().Add(time.Hour)}, "[]"},
		{"an offset", brokers.From{Offsets: at(2)}, "[old2 old3 new0 new1 new2]"},
		{"the later offset", brokers.From{Since: between, Offsets: at(5)}, "[new1 new2]"},
		{"the later time", brokers.From{Since: between, Offsets: at(1)}, "[new0 new1 new2]"},
		{"below the beginning", brokers.From{Offsets: map[int32]int64{0: 0}}, values(all)},
		{"negative", brokers.From{Offsets: map[int32]int64{0: -5}}, values(all)},
		{"the end", brokers.From{Offsets: end}, "[]"},
		{"far beyond the end", brokers.From{Offsets: map[int32]int64{0: 1 << 40}}, "[]"},
		{"no partition", brokers.From{Offsets: map[int32]int64{}}, "[]"},
		{"another partition", brokers.From{Offsets: map[int32]int64{1: 0}}, "[]"},
		{"a partition that is not there", brokers.From{Offsets: map[int32]int64{0: all[6].Offset, 99: 0, -1: 0}}, "[new2]"},
	} {
		got := w.browse(t, browser, topic, c.from)
		if values(got) != c.want {
			t.Errorf("%s: %s, want %s", c.name, values(got), c.want)
		}
		if len(got) > 0 && got[0].Lane.Backlog != int64(len(got)) {
			t.Errorf("%s: %d messages are said to be there", c.name, got[0].Lane.Backlog)
		}
	}
}

// browseStops: a page of a long topic takes no longer than one of a short one.
func browseStops(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	messages := numbered("", 2000)
	for i := range messages {
		messages[i].Value = slices.Concat(messages[i].Value, make([]byte, 10_000))
	}
	w.h.Produce(t, topic, messages...)
	_, browser := w.browser(t)
	for range 20 {
		n := 0
		for d, err := range browser.Browse(t.Context(), topic, brokers.From{}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 10 {
				if d.Lane.Backlog != int64(len(messages)) {
					t.Errorf("%d messages are said to be there", d.Lane.Backlog)
				}
				break
			}
		}
		if n != 10 {
			t.Fatalf("%d", n)
		}
	}
	before := heap()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for d, err := range browser.Browse(ctx, topic, brokers.From{}) {
		if err != nil {
			last = err
			continue
		}
		_ = d
		if n++; n == 10 {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) || n > len(messages)/2 {
		t.Errorf("after the context ended: %v, after %d messages", last, n)
	}
	w.eventually(t, func() (bool, string) {
		grown := int64(heap()) - int64(before)
		return grown < 16<<20, fmt.Sprintf("%d bytes are kept", grown)
	})
}

// browseEnds: whoever publishes what he reads comes to an end.
func browseEnds(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	messages := numbered("m", 100)
	for i := range messages { // more than is read at once
		messages[i].Value = slices.Concat(messages[i].Value, make([]byte, 30_000))
	}
	w.h.Produce(t, topic, messages...)
	_, browser := w.browser(t)
	ctx, cancel := context.WithTimeout(t.Context(), w.patience())
	defer cancel()
	n := 0
	for d, err := range browser.Browse(ctx, topic, brokers.From{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(d.Value), "m") {
			t.Fatalf("%.20q came after the browse began", d.Value)
		}
		if n++; n%2 == 1 {
			w.h.Produce(t, topic, numbered("later", 3)...)
		}
	}
	if n != 100 {
		t.Errorf("%d of 100", n)
	}
}

func browseMissing(t *testing.T, w *world) {
	_, browser := w.browser(t)
	ctx, cancel := context.WithTimeout(t.Context(), w.patience())
	defer cancel()
	for _, topic := range []string{"nowhere", "", "no topic", "a\x00b", strings.Repeat("x", 5000)} {
		var told []error
		for d, err := range browser.Browse(ctx, topic, brokers.From{}) {
			if d != nil {
				t.Errorf("%.20q shows %q", topic, d.Value)
			}
			told = append(told, err)
		}
		if len(told) != 1 || !errors.Is(told[0], brokers.ErrNoDestination) || len(told[0].Error()) > 1000 {
			t.Errorf("%.20q: %v", topic, told)
		}
		if topic == "nowhere" && !strings.Contains(told[0].Error(), topic) {
			t.Errorf("%v does not name the topic", told[0])
		}
	}
}

// browseBeside: who browses takes nothing from a consumer, and a consumer
// nothing from who browses.
func browseBeside(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 20)...)
	b, r := w.start(t, topic)
	browser := b.(brokers.Browser)
	got := r.receive(t, 20)
	r.ack(t, got[:5]...)
	for range 3 {
		if shown := w.browse(t, browser, topic, brokers.From{}); len(shown) != 20 {
			t.Fatalf("%d of 20", len(shown))
		}
	}
	r.nothing(t, 100*time.Millisecond)
	for d := range browser.Browse(t.Context(), topic, brokers.From{}) {
		if d != nil {
			// Not this consumer's to settle: it does not count.
			_ = r.Ack([]*brokers.Delivery{d})
		}
	}
	r.ack(t, got[5:10]...)
	r.close(t)
	_, r = w.start(t, topic)
	if again := r.receive(t, 10); sorted(again) != "[m10 m11 m12 m13 m14 m15 m16 m17 m18 m19]" {
		t.Errorf("again: %s", values(again))
	}
	r.nothing(t, 100*time.Millisecond)
}

func browseEmpty(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 3)
	_, browser := w.browser(t)
	if got := w.browse(t, browser, topic, brokers.From{}); len(got) != 0 {
		t.Errorf("shows %s", values(got))
	}
	if got := w.browse(t, browser, topic, brokers.From{Since: time.Now()}); len(got) != 0 {
		t.Errorf("shows %s", values(got))
	}
}

func browseTrimmed(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 10)...)
	_, browser := w.browser(t)
	all := w.browse(t, browser, topic, brokers.From{})
	w.h.DropBelow(t, topic, all[6].Offset)
	for name, from := range map[string]brokers.From{
		"all": {}, "from one that is gone": {Offsets: map[int32]int64{0: all[2].Offset}}, "since": {Since: time.Now().Add(-time.Hour)},
	} {
		if got := w.browse(t, browser, topic, from); values(got) != "[m6 m7 m8 m9]" || got[0].Offset != all[6].Offset || got[0].Lane.Backlog != 4 {
			t.Errorf("%s: %s", name, values(got))
		}
	}
	w.h.DropBelow(t, topic, all[9].Offset+1)
	if got := w.browse(t, browser, topic, brokers.From{}); len(got) != 0 {
		t.Errorf("all are gone: %s", values(got))
	}
	w.h.Produce(t, topic, numbered("n", 1)...)
	if got := w.browse(t, browser, topic, brokers.From{}); values(got) != "[n0]" || got[0].Offset <= all[9].Offset {
		t.Errorf("after all are gone: %s", values(got))
	}
}

func inspect(t *testing.T, w *world) {
	topic := w.h.NewTopic(t, 1)
	w.h.Produce(t, topic, numbered("m", 7)...)
	b, r := w.start(t, topic)
	source := r.receive(t, 1)[0].Lane.Source
	to := b.Destinations(w.consumer, topic)
	asked := []string{to.DeadLetter, "nowhere", topic, "no topic", to.Retry}
	infos, err := b.(brokers.Browser).Inspect(t.Context(), asked)
	if err != nil || len(infos) != len(asked) {
		t.Fatalf("%+v, %v", infos, err)
	}
	for i, info := range infos {
		if missing := i == 1 || i == 3; missing != info.Missing || missing && info != (brokers.TopicInfo{Topic: asked[i], Missing: true}) {
			t.Errorf("%q: %+v", asked[i], info)
		}
		if info.Topic != asked[i] || !info.Missing && (info.Identity == "" || info.Partitions < 1 || info.Replicas < 1) {
			t.Errorf("%q: %+v", asked[i], info)
		}
	}
	if infos[2].Identity != source || infos[2].Messages != 7 || infos[0].Messages != 0 {
		t.Errorf("%+v, whose identity is %q to a consumer", infos[2], source)
	}
	if infos, err := b.(brokers.Browser).Inspect(t.Context(), nil); err != nil || len(infos) != 0 {
		t.Errorf("nothing: %+v, %v", infos, err)
	}
}

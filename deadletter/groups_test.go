package deadletter_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// endless is a dead-letter topic whose messages are made while they are read.
type endless struct {
	deadletter.Broker
	count  int
	letter func(i int) deadletter.Letter
}

var begun = time.Now().Add(-time.Hour).Truncate(time.Second)

func (b *endless) Browse(ctx context.Context, topic string, _ brokers.From) iter.Seq2[*brokers.Delivery, error] {
	return func(yield func(*brokers.Delivery, error) bool) {
		lane := &brokers.Lane{Topic: topic, Source: topic + "@1"}
		for i := range b.count {
			out := deadletter.Encode(b.letter(i), topic)
			d := &brokers.Delivery{Lane: lane, Offset: int64(i), Value: out.Value, Headers: out.Headers, Time: begun.Add(time.Duration(i) * time.Millisecond)}
			if !yield(d, ctx.Err()) {
				return
			}
		}
	}
}

func numbered(i int, text string) deadletter.Letter {
	key := dedup.Key{Consumer: "billing", Scope: "order.create", ID: fmt.Sprintf("ord-%d", i)}
	return deadletter.Letter{
		ID: deadletter.ID(key, 1), Consumer: "billing", Reason: deadletter.ReasonTerminal, Error: text, ErrorType: "*billing.RefusedError",
		Key: key, Run: 1, Source: deadletter.Source{Topic: "orders", Offset: int64(i)}, Value: []byte(`{"order_id":"1"}`), AppVersion: "v1",
	}
}

func groupsOf(t *testing.T, count int, letter func(i int) deadletter.Letter, f deadletter.Filter) []deadletter.Group {
	t.Helper()
	q := deadletter.Queue{Topic: "dlq", Consumer: "billing", Broker: &endless{count: count, letter: letter}, Store: memstore.New()}
	groups, err := q.Groups(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return groups
}

func TestLettersOfOneCauseAreOneGroup(t *testing.T) {
	groups := groupsOf(t, 100, func(i int) deadletter.Letter {
		l := numbered(i, fmt.Sprintf("card %d of \"ord-%d\" refused", i, i))
		if i%10 == 9 {
			l.Error, l.AppVersion = fmt.Sprintf("timeout after %dms", i), "v2"
		}
		return l
	}, deadletter.Filter{})
	if len(groups) != 2 {
		t.Fatalf("groups %+v", groups)
	}
	first := deadletter.Group{
		Reason: "terminal", ErrorType: "*billing.RefusedError", Pattern: `card # of "…" refused`, Text: `card # of "…" refused`, AppVersion: "v1", Count: 90,
		First: begun, Last: begun.Add(98 * time.Millisecond), Example: numbered(98, "").ID, Error: `card 98 of "ord-98" refused`,
	}
	if groups[0] != first {
		t.Errorf("the largest is\n%+v, want\n%+v", groups[0], first)
	}
	if g := groups[1]; g.Count != 10 || g.Pattern != "timeout after #" || g.AppVersion != "v2" {
		t.Errorf("the other is %+v", g)
	}
}

// 500 and 503 are of one group, and a person must see which they were.
func TestNumbersThatAreFewAreShown(t *testing.T) {
	for name, c := range map[string]struct {
		text func(i int) string
		want string
	}{
		"all the same":   {func(int) string { return `status 503 for "ann" after 1.5s #` }, `status 503 for "ann" after 1.5s #`},
		"two of them":    {func(i int) string { return fmt.Sprintf("status %d for order %d", 500+3*(i%2), i) }, "status 500|503 for order #"},
		"many":           {func(i int) string { return fmt.Sprintf("10,%d00 is too much", i) }, "# is too much"},
		"quoted":         {func(i int) string { return fmt.Sprintf("no %q in 12,000", []string{"a", "b"}[i%2]) }, `no "…" in 12,000`},
		"the sign":       {func(i int) string { return "order #" + []string{"", "5"}[i%2] }, "order #"},
		"after the sign": {func(i int) string { return fmt.Sprintf("order #%d", 5+i%2) }, "order #5|#6"},
		"too long":       {func(int) string { return `no "` + strings.Repeat("x", 70) + `"` }, `no "…"`},
	} {
		groups := groupsOf(t, 10, func(i int) deadletter.Letter { return numbered(i, c.text(i)) }, deadletter.Filter{})
		if len(groups) != 1 || groups[0].Text != c.want {
			t.Errorf("%s: %+v, want %q", name, groups, c.want)
		}
	}
}

func TestALetterWrittenTwiceCountsOnce(t *testing.T) {
	groups := groupsOf(t, 10, func(i int) deadletter.Letter { return numbered(i/2, "refused") }, deadletter.Filter{})
	if len(groups) != 1 || groups[0].Count != 5 {
		t.Errorf("groups %+v, want one of 5", groups)
	}
}

func TestGroupsBeyondTheBoundAreOne(t *testing.T) {
	const more = 50
	word := func(i int) string {
		text := make([]byte, 5)
		for n := range text {
			text[n] = byte('g' + i%20)
			i /= 20
		}
		return string(text)
	}
	groups := groupsOf(t, deadletter.MaxGroups+more, func(i int) deadletter.Letter { return numbered(i, word(i)) }, deadletter.Filter{})
	if len(groups) != deadletter.MaxGroups+1 || !groups[0].Rest || groups[0].Count != more {
		t.Errorf("%d groups, the first %+v", len(groups), groups[0])
	}
}

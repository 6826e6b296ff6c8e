package natsbroker

import (
	"testing"
	"time"
)

func TestBothFormsOfAckSubjectsAreRead(t *testing.T) {
	want := coordinates{sequence: 42, consumed: 17, stored: time.Unix(0, 1700000000123456789).UTC(), pending: 5}
	for _, reply := range []string{
		"$JS.ACK.ORDERS.billing.3.42.17.1700000000123456789.5",
		"$JS.ACK.hub.ACCHASH.ORDERS.billing.3.42.17.1700000000123456789.5",
		"$JS.ACK._.ACCHASH.ORDERS.billing.3.42.17.1700000000123456789.5.random.more",
	} {
		if got, ok := parseReply(reply); !ok || got != want {
			t.Errorf("%s: %+v, %v", reply, got, ok)
		}
	}
	for _, reply := range []string{
		"", "_INBOX.x.1.2", "$JS.ACK.", "$JS.ACK.a.b.1.2.3.4", "$JS.ACK.a.b.x.2.3.4.5", "$JS.ACK.a.b.1.-2.3.4.5",
		"$JS.ACK.a.b.1.99999999999999999999.3.4.5", "$JS.ACK.a.b.1..3.4.5",
	} {
		if got, ok := parseReply(reply); ok {
			t.Errorf("%q is read as %+v", reply, got)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	f.Add("$JS.ACK.ORDERS.billing.3.42.17.1700000000123456789.5")
	f.Fuzz(func(t *testing.T, reply string) {
		if c, ok := parseReply(reply); ok && c.sequence < 0 {
			t.Errorf("%q has the sequence %d", reply, c.sequence)
		}
	})
}

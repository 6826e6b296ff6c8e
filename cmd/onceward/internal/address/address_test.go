package address

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestAnAddressNamesHostsTopicAndConsumer(t *testing.T) {
	for text, want := range map[string]Address{
		"kafka://localhost:9092/orders.billing.dlq": {
			Scheme: "kafka", Hosts: []string{"localhost:9092"}, Topic: "orders.billing.dlq", Consumer: "billing", Source: "orders", Named: true,
		},
		"kafka://u:p%40ss@a,b:9093,[::1]/shop.orders.billing.dlq?tls=true": {
			Scheme: "kafka", Hosts: []string{"a:9092", "b:9093", "[::1]:9092"}, Topic: "shop.orders.billing.dlq", Consumer: "billing", Source: "shop.orders", Named: true,
			user: "u", password: "p@ss",
		},
		"kafka://a/orders-dlt?consumer=billing&source=orders": {
			Scheme: "kafka", Hosts: []string{"a:9092"}, Topic: "orders-dlt", Consumer: "billing", Source: "orders",
		},
		"kafka://a/poison": {Scheme: "kafka", Hosts: []string{"a:9092"}, Topic: "poison"},
		"nats://a/ORDERS_DLQ?subject=ORDERS_DLQ.billing": {
			Scheme: "nats", Hosts: []string{"a:4222"}, Stream: "ORDERS_DLQ", Topic: "ORDERS_DLQ.billing", Consumer: "billing", Source: "ORDERS", Named: true,
		},
		"nats://a/ORDERS_DLQ?consumer=billing": {
			Scheme: "nats", Hosts: []string{"a:4222"}, Stream: "ORDERS_DLQ", Topic: "ORDERS_DLQ.billing", Consumer: "billing", Source: "ORDERS", Named: true,
		},
		"nats://a/POISON?subject=poison": {Scheme: "nats", Hosts: []string{"a:4222"}, Stream: "POISON", Topic: "poison"},
	} {
		got, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got.options = nil
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s is\n%+v, want\n%+v", text, *got, want)
		}
	}
}

func TestAWrongAddressIsRefusedWithoutItsSecret(t *testing.T) {
	const secret = "hunter2"
	for _, text := range []string{
		"", "orders", "amqp://u:hunter2@a/q", "kafka://", "kafka:///topic", "kafka://u:hunter2@a", "kafka://u:hunter2@a/", "kafka://a/b/c",
		"kafka://u:hunter2%zz@a/t", "kafka://a/t?password=hunter2", "kafka://a/t?tls=true&tls=true", "kafka://a/t?tls=", "kafka://a/t?x=%zz",
		"kafka://a/t?subject=x", "nats://a/ORDERS_DLQ", "nats://u:hunter2@a,/S?subject=x", "kafka://a/%zz", "kafka://u:hunter2@a/t?%zz",
	} {
		a, err := Parse(text)
		if err == nil {
			t.Errorf("%s was read as %+v", text, a)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error has the password: %v", text, err)
		}
	}
	a, err := Parse("kafka://u:hunter2@a/t")
	if err != nil || strings.Contains(a.String(), secret) || a.String() != "kafka://a:9092/t" {
		t.Errorf("shown as %v, %v", a, err)
	}
}

func TestAPasswordIsReadFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hunter2\r\nmore"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := Parse("kafka://a/t?user=u&sasl=plain&password-file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	if user, password, err := a.login(); user != "u" || password != "hunter2" || err != nil {
		t.Errorf("login %q %q %v", user, password, err)
	}
	for text, wrong := range map[string]string{
		"kafka://a/t?sasl=gssapi":            "option sasl",
		"kafka://a/t?tls=maybe":              "option tls",
		"kafka://a/t?ca=" + file:             "no certificate",
		"kafka://a/t?cert=" + file:           "certificate of this client",
		"kafka://a/t?password-file=/no/file": "/no/file",
		"nats://a/S?subject=s&nkey=/no/file": "option nkey",
	} {
		a, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if _, err := a.Connect(t.Context(), "test"); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %q", text, err, wrong)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("kafka://u:p@a:1,b/t?tls=true")
	f.Add("nats://a/S?subject=s")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text)
		if err == nil && (len(a.Hosts) == 0 || a.Topic == "") {
			t.Errorf("%q is %+v", text, a)
		}
	})
}

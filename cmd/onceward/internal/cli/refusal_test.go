package cli_test

import (
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/cmd/onceward/internal/cli"
	"github.com/onceward/onceward/consumer"
	"github.com/onceward/onceward/internal/natstest"
)

func TestWrongFlagsAreToldBeforeAnythingIsTried(t *testing.T) {
	for _, args := range [][]string{
		{}, {"dlq"}, {"dlq", "lsit"}, {"frobnicate"}, {"dlq", "list", "--frobnicate"}, {"dlq", "show"}, {"dlq", "list"},
		{"dlq", "list", "--from", "amqp://a/q"}, {"dlq", "list", "--from", "kafka://a/t", "--reason", "bored"},
		{"dlq", "list", "--from", "kafka://a/t", "--state", "lost"}, {"dlq", "list", "--from", "kafka://a/t", "--error", "("},
		{"dlq", "list", "--from", "kafka://a/t", "--since", "soon"}, {"dlq", "show", "id", "--from", "kafka://a/t", "--payload", "xml"},
		{"dlq", "replay", "plan", "--from", "kafka://a/t"}, {"dlq", "replay", "plan", "-o", "x", "--to", "moon"},
		{"dlq", "replay", "plan", "-o", "x", "--accept-expired"}, {"dlq", "replay", "apply", "x", "--accept-expired"}, {"dlq", "replay", "apply", "x", "--reason", "asked"}, {"dlq", "replay", "plan", "-o", "x", "--approve", "id"},
		{"dlq", "replay", "apply"}, {"dlq", "resolve", "id"}, {"dlq", "discard", "id", "--reason", "x"}, {"dlq", "resolve", "id", "--reason", "x"},
		{"dlq", "open", "id", "--reason", "x", "--yes", "--from", "kafka://a/t"},
		{"dlq", "list", "--via", "http://a", "--store", "bolt:b"}, {"record", "list"}, {"record", "list", "--store", "redis://a"},
		{"record", "delete", "x"}, {"record", "import", "--reason", "x"},
		{"record", "import", "--reason", "x", "--redis", "redis://u:secret@a", "--pattern", "a*", "--yes"},
		{"record", "import", "f", "--reason", "x", "--pattern", "a*"}, {"record", "rerun", "--scope", "s", "-o", "x"},
		{"record", "rerun", "--scope", "s", "--completed-between", "2026-01-02", "2026-01-01", "--why", "x", "-o", "x"}, {"record", "rerun", "--scope", "s", "--completed-between", "2026-01-01", "--why", "x", "-o", "x"},
		{"record", "rerun", "x", "--why", "x", "-o", "x"}, {"pause"},
	} {
		r := call(t, args)
		if r.code != cli.Usage {
			t.Errorf("%v: exit code %d, want %d: %s", args, r.code, cli.Usage, r.stderr)
		}
		if r.stdout != "" || r.stderr == "" || strings.Contains(r.stderr, "secret") {
			t.Errorf("%v: stdout %q, stderr %q", args, r.stdout, r.stderr)
		}
	}
}

func TestWhatIsMissingOrSetTwiceIsNamed(t *testing.T) {
	r := call(t, "dlq", "list").want(t, cli.Usage).says(t, "where are the letters?")
	if strings.Contains(r.stderr, "counts as open") {
		t.Errorf("there is nothing to count: %s", r.stderr)
	}
	call(t, "dlq", "list", "ONCEWARD_VIA=http://a", "ONCEWARD_STORE=bolt:b").want(t, cli.Usage).says(t, "$ONCEWARD_VIA and $ONCEWARD_STORE are both set")
	call(t, "dlq", "list", "--via", "http://a", "--store", "bolt:b").want(t, cli.Usage).says(t, "--via and --store")
}

func TestHelpAndCompletionAreData(t *testing.T) {
	call(t, "--help").want(t, cli.Done).shows(t, "Exit status", "dlq", "record")
	call(t, "dlq", "list", "--help").want(t, cli.Done).shows(t, "--error", "kafka://HOST")
	call(t, "completion", "bash").want(t, cli.Done).shows(t, "onceward")
	call(t, "__complete", "dlq", "list", "--state", "").want(t, cli.Done).shows(t, "held", "discarded")
	call(t, "version", "--json").want(t, cli.Done).shows(t, `"version":`, `"go":`)
	call(t, "version").want(t, cli.Done).shows(t, "onceward")
}

func TestAnAddressWhereNobodyAnswersIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	call(t, "dlq", "list", "--from", "nats://u:hunter2@"+address+"/ORDERS_DLQ?consumer=billing").want(t, cli.Failed)
	r := call(t, "dlq", "list", "--via", "http://"+address).want(t, cli.Failed).says(t, "if it is stopped, use --from and --store")
	if strings.Contains(r.stderr, "hunter2") {
		t.Errorf("the password is shown: %s", r.stderr)
	}
	stranger := httptest.NewServer(nil)
	defer stranger.Close()
	call(t, "dlq", "list", "--via", stranger.URL).want(t, cli.Failed)
}

func TestWrongCredentialsAreAnErrorThatDoesNotShowThem(t *testing.T) {
	s := natstest.Serve(t, func(o *server.Options) { o.Username, o.Password = "u", "right" })
	address := strings.TrimPrefix(s.ClientURL(), "nats://")
	r := call(t, "dlq", "list", "--from", "nats://u:hunter2@"+address+"/ORDERS_DLQ?consumer=billing").want(t, cli.Failed)
	r.says(t, "uthorization")
	if strings.Contains(r.stderr, "hunter2") {
		t.Errorf("the password is shown: %s", r.stderr)
	}
}

func TestWrongCredentialsOfKafkaAreAnErrorThatDoesNotShowThem(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders.billing.dlq"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "right"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	at := func(password string) string {
		return "kafka://u:" + password + "@" + cluster.ListenAddrs()[0] + "/orders.billing.dlq?sasl=plain"
	}
	r := call(t, "dlq", "list", "--from", at("hunter2")).want(t, cli.Failed).says(t, "password")
	if strings.Contains(r.stderr, "hunter2") {
		t.Errorf("the password is shown: %s", r.stderr)
	}
	call(t, "dlq", "list", "--from", at("right")).want(t, cli.Nothing)
}

func TestWhatIsNotThereOrNotThisConsumersIsRefused(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "refuse"))
	r.letters(1)
	if broker := call(t, "dlq", "list", "--via", strings.Replace(r.url, "nats:", "http:", 1)).want(t, cli.Failed).says(t, "does not speak HTTP"); strings.Contains(broker.stderr, "INFO") {
		t.Errorf("the broker's greeting is repeated: %s", broker.stderr)
	}
	call(t, "dlq", "list", "--from", r.url+"/PAYMENTS_DLQ?consumer=billing").want(t, cli.Failed).says(t, "PAYMENTS_DLQ")
	call(t, "dlq", "list", "--from", r.from(), "--consumer", "shipping").want(t, cli.Failed).says(t, `"billing"`, `"shipping"`)
	call(t, "dlq", "list", "--via", r.via, "--consumer", "shipping").want(t, cli.Failed).says(t, `"billing"`, `"shipping"`)
	call(t, "dlq", "show", "0123456789abcdef0123456789abcdef", "--via", r.via).want(t, cli.Nothing)
	call(t, "dlq", "list", "--via", r.via+"/v1/").want(t, cli.Done)

	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "dlq", "replay", "plan", "-o", plan, "--via", r.via).want(t, cli.Done)
	text, err := os.ReadFile(plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plan+"0", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	call(t, "dlq", "replay", "apply", plan+"0", "--yes", "--via", r.via).want(t, cli.Failed).says(t, "the file is empty")
	changed := strings.Replace(string(text), `"ord-1"`, `"ord-2"`, 1)
	if err := os.WriteFile(plan+"2", []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	call(t, "dlq", "replay", "apply", plan+"2", "--yes", "--via", r.via).want(t, cli.Failed).says(t, "changed")
	r.stop()
	other := filepath.Join(t.TempDir(), "other.db")
	call(t, "dlq", "replay", "apply", plan, "--yes", "--from", r.from(), "--store", "bolt:"+other).want(t, cli.Failed).says(t, "no file")
	call(t, "dlq", "replay", "apply", plan, "--yes", "--from", r.from(), "--store", "bolt:"+other, "--create").want(t, cli.Failed).says(t, "consumed last with store")
	if s, err := r.js.Stream(t.Context(), "ORDERS_RETRY"); err != nil || s.CachedInfo().State.Msgs != 0 {
		t.Errorf("something was sent: %v", err)
	}
}

func TestATokenWithoutTheRoleSendsNothing(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{Tokens: []consumer.AdminToken{
		{Name: "eve", Token: "token-that-may-only-look", Role: consumer.AdminView},
		{Name: "bob", Token: "token-that-may-send-back", Role: consumer.AdminReplay},
	}})
	r.publish("created", order("ord-1", "refuse"))
	r.letters(1)
	call(t, "dlq", "list", "--via", r.via).want(t, cli.Failed).says(t, "token", "$ONCEWARD_TOKEN", "--token-file")
	call(t, "dlq", "list", "--via", r.via, "ONCEWARD_TOKEN=wrong-token-for-this-one").want(t, cli.Failed).says(t, "token", "not known")
	eve := []string{"--via", r.via}
	plan := filepath.Join(t.TempDir(), "plan.jsonl")
	call(t, "ONCEWARD_TOKEN=token-that-may-only-look", "dlq", "replay", "plan", "-o", plan, eve).want(t, cli.Done)
	call(t, "ONCEWARD_TOKEN=token-that-may-only-look", "dlq", "replay", "apply", plan, "--dry-run", eve).want(t, cli.Done).says(t, "your role is view")
	refused := call(t, "ONCEWARD_TOKEN=token-that-may-only-look", "dlq", "replay", "apply", plan, "--yes", eve).want(t, cli.Partly).
		says(t, "next: apply the plan with a token that has the role replay")
	if strings.Contains(refused.stderr, "apply the plan again") {
		t.Errorf("again it is refused again: %s", refused.stderr)
	}
	call(t, "ONCEWARD_TOKEN=token-that-may-only-look", "pause", "--reason", "x", "--yes", eve).want(t, cli.Partly)
	if s, err := r.js.Stream(t.Context(), "ORDERS_RETRY"); err != nil || s.CachedInfo().State.Msgs != 0 {
		t.Errorf("something was sent: %v", err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("token-that-may-send-back\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.mended.Store(true)
	call(t, "dlq", "replay", "apply", plan, "--yes", "--token-file", file, "--via", r.via).want(t, cli.Done)
	call(t, "dlq", "replay", "status", plan, "--wait", "20s", "--token-file", file, "--via", r.via).want(t, cli.Done)
	call(t, "record", "get", "ord-1", "--token-file", file, "--via", r.via).want(t, cli.Done).shows(t, "bob")
	call(t, "record", "delete", "ord-1", "--reason", "x", "--yes", "--token-file", file, "--via", r.via).want(t, cli.Partly).
		says(t, "deleting the record of billing/order.create/ord-1 needs the role approve; bob has the role replay")
}

// A name that is misspelt in the address finds nothing, or letters of somebody
// whom nobody named; either is told.
func TestAMisspeltAddressIsTold(t *testing.T) {
	r := newRig(t)
	r.start(consumer.AdminConfig{})
	r.publish("created", order("ord-1", "refuse"))
	r.letters(1)
	r.quiet()
	r.stop()
	file := []string{"--store", "bolt:" + r.file}
	call(t, "dlq", "list", "--from", r.url+"/ORDERS_DLX?subject=ORDERS_DLQ.billing", file).want(t, cli.Failed).
		says(t, `letters of consumer "billing", and no consumer was named`, "--consumer NAME")
	call(t, "dlq", "list", "--from", r.url+"/ORDERS_DLQ?subject=ORDERS_DLQ.biling", file).want(t, cli.Nothing).
		says(t, `no record and no letter of a consumer "biling"`)
	for _, args := range [][]string{{"list"}, {"get", "ord-1"}, {"get", "ord-1", "--scope", "order.create"}} {
		call(t, "record", args, "--consumer", "biling", file).want(t, cli.Nothing).says(t, "are name and file right?")
	}
	known := call(t, "dlq", "list", "--from", r.from(), "--state", "held", file).want(t, cli.Nothing)
	if strings.Contains(known.stderr, "are name and file right?") {
		t.Errorf("a consumer that is known is doubted: %s", known.stderr)
	}
}

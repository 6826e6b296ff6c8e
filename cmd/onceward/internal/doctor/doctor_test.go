package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

const day = 24 * time.Hour

// sound is a setup of which nothing is to be said.
func sound() Setup {
	topic := func(name string) brokers.TopicInfo {
		return brokers.TopicInfo{Topic: name, Partitions: 6, Replicas: 3, InSync: 2, MaxMessage: 1 << 20}
	}
	t := Topics{Names: [3]string{"orders", "orders.billing.dlq", "orders.billing.retry"}, Source: topic("orders"), DeadLetter: topic("dlq"), Retry: topic("retry")}
	t.Source.MaxAge = 7 * day
	t.DeadLetter.MaxMessage, t.Retry.MaxMessage = 2<<20, 2<<20
	t.Retry.MaxAge = day
	return Setup{
		Consumer: "billing", Known: true, Window: 14 * day, Topics: []Topics{t}, Store: &dedup.Info{Kind: "boltstore billing.db", Local: true},
		Routes: []Route{{Scope: "order.create", Window: 14 * day, LongestWait: time.Hour}},
	}
}

func TestASoundSetupHasNoFindings(t *testing.T) {
	found, unchecked := Look(sound())
	if len(found) > 0 || len(unchecked) > 0 {
		t.Errorf("found %+v, not checked %v", found, unchecked)
	}
}

func TestEachFaultIsFoundWithWhatMendsIt(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*Setup)
		level Level
		what  string
		mend  string
	}{
		"no source":         {func(s *Setup) { s.Topics[0].Source = brokers.TopicInfo{Missing: true} }, Error, "orders does not exist", "kafka-topics.sh --create --topic orders"},
		"no letters":        {func(s *Setup) { s.Topics[0].DeadLetter = brokers.TopicInfo{Missing: true} }, Error, "orders.billing.dlq does not exist", "--partitions 6"},
		"no retry":          {func(s *Setup) { s.Topics[0].Retry = brokers.TopicInfo{Missing: true} }, Error, "orders.billing.retry does not exist", "--topic orders.billing.retry"},
		"source in memory":  {func(s *Setup) { s.Topics[0].Source.InMemory = true }, Warning, "orders is kept in memory", "file"},
		"window too short":  {func(s *Setup) { s.Routes[0].Window = 3 * day }, Warning, "keeps messages for 168h", "at least 168h"},
		"kept for ever":     {func(s *Setup) { s.Topics[0].Source.MaxAge = 0 }, Note, "keeps messages for ever", "Archive"},
		"letters go early":  {func(s *Setup) { s.Topics[0].DeadLetter.MaxAge = 7 * day }, Warning, "keeps letters for 168h0m0s only", "retention.ms=-1"},
		"letters go":        {func(s *Setup) { s.Topics[0].DeadLetter.MaxAge = 30 * day }, Note, "keeps letters for 720h", "retention.ms=-1"},
		"work queue":        {func(s *Setup) { s.Topics[0].DeadLetter.ConsumedOnce = true }, Error, "work queue", "--retention=limits"},
		"compacted letters": {func(s *Setup) { s.Topics[0].DeadLetter.Compacted = true }, Error, "compacted", "cleanup.policy=delete"},
		"compacted retry":   {func(s *Setup) { s.Topics[0].Retry.Compacted = true }, Error, "compacted", "cleanup.policy=delete"},
		"fewer partitions":  {func(s *Setup) { s.Topics[0].DeadLetter.Partitions = 1 }, Note, "has 1 partitions", "--partitions 6"},
		"hidden source":     {func(s *Setup) { s.Topics[0].Source = brokers.TopicInfo{Hidden: true} }, Note, "orders does not show its settings", "describe"},
		"hidden letters":    {func(s *Setup) { s.Topics[0].DeadLetter = brokers.TopicInfo{Hidden: true} }, Note, "orders.billing.dlq does not show", "describe"},
		"hidden retry":      {func(s *Setup) { s.Topics[0].Retry = brokers.TopicInfo{Hidden: true} }, Note, "orders.billing.retry does not show", "describe"},
		"smaller letters":   {func(s *Setup) { s.Topics[0].DeadLetter.MaxMessage = 1 << 19 }, Warning, "takes messages of 524288 bytes", "max.message.bytes="},
		"letters as large":  {func(s *Setup) { s.Topics[0].DeadLetter.MaxMessage = 1 << 20 }, Note, "takes messages of 1048576 bytes", "max.message.bytes="},
		"small retry":       {func(s *Setup) { s.Topics[0].Retry.MaxMessage = 1 << 10 }, Error, "takes messages of 1024 bytes", "max.message.bytes="},
		"retry goes early":  {func(s *Setup) { s.Topics[0].Retry.MaxAge = time.Hour }, Error, "the longest wait is 1h", "retention.ms=7200000"},
		"letters in memory": {func(s *Setup) { s.Topics[0].DeadLetter.InMemory = true }, Error, "kept in memory", "file"},
		"drops old":         {func(s *Setup) { s.Topics[0].DeadLetter.MaxBytes, s.Topics[0].DeadLetter.DropsOld = 1<<30, true }, Error, "oldest go", "retention.bytes=-1"},
		"more must confirm": {func(s *Setup) { s.Topics[0].Retry.InSync = 4 }, Error, "and 4 must confirm", "min.insync.replicas=2"},
		"one replica":       {func(s *Setup) { s.Topics[0].Retry.Replicas, s.Topics[0].Retry.InSync = 1, 1 }, Warning, "one replica", "reassign"},
		"one confirms":      {func(s *Setup) { s.Topics[0].Retry.InSync = 1 }, Warning, "confirms alone", "min.insync.replicas=2"},
		"all must confirm":  {func(s *Setup) { s.Topics[0].Retry.InSync = 3 }, Warning, "all of them must confirm", "min.insync.replicas=2"},
		"store in memory":   {func(s *Setup) { s.Store.Kind = "memstore" }, Error, "in memory", "boltstore"},
		"local in group":    {func(s *Setup) { s.LocalGroup = true }, Error, "covers one process", "share a store"},
		"unconfirmed":       {func(s *Setup) { s.Store.Unconfirmed = true }, Error, "older than", "start the consumer"},
		"adopted":           {func(s *Setup) { s.Store.Adopt = true }, Warning, "Adopt", "without it"},
		"full":              {func(s *Setup) { s.Store.Full = 1 }, Error, "is full", "MaxIndexBytes"},
		"nearly full":       {func(s *Setup) { s.Store.Full = 0.9 }, Warning, "90 % full", "MaxIndexBytes"},
		"degraded":          {func(s *Setup) { s.Degraded = []string{"breaker: open"} }, Warning, "breaker: open", "cause"},
		"hung":              {func(s *Setup) { s.Hung = 2 }, Warning, "2 handlers", "restart"},
		"paused":            {func(s *Setup) { s.Paused = []dedup.Pause{{Who: "ann", Why: "release"}} }, Note, "by ann: release", "onceward resume"},
		"paused scope":      {func(s *Setup) { s.Paused = []dedup.Pause{{Scope: "order.create"}} }, Note, `scope "order.create" is paused`, `--scope "order.create"`},
		"held":              {func(s *Setup) { s.Held = 3 }, Note, "3 letters are held", "--state held"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sound()
			c.fault(&s)
			found, _ := Look(s)
			if !slices.ContainsFunc(found, func(f Finding) bool {
				return f.Level == c.level && strings.Contains(f.What, c.what) && strings.Contains(f.Mend, c.mend) && f.Consequence != ""
			}) {
				t.Errorf("found %+v, want %s %q, mended by %q", found, c.level, c.what, c.mend)
			}
			if !slices.IsSortedFunc(found, func(a, b Finding) int { return rank(a.Level) - rank(b.Level) }) {
				t.Errorf("not the worst first: %+v", found)
			}
		})
	}
}

func rank(l Level) int { return slices.Index([]Level{Error, Warning, Note}, l) }

func TestOnJetStreamTheCommandsAreThoseOfNats(t *testing.T) {
	s := sound()
	s.Topics[0].JetStream = true
	s.Topics[0].Names = [3]string{"ORDERS", "ORDERS_DLQ.billing", "ORDERS_RETRY.billing"}
	s.Topics[0].DeadLetter.DropsOld, s.Topics[0].DeadLetter.MaxCount = true, 10
	s.Topics[0].Retry = brokers.TopicInfo{Missing: true}
	s.Known, s.Store = false, nil
	found, unchecked := Look(s)
	var text strings.Builder
	for _, f := range found {
		text.WriteString(f.Mend + "\n")
	}
	for _, want := range []string{"nats stream edit ORDERS_DLQ --discard=new", "nats stream add ORDERS_RETRY --subjects='ORDERS_RETRY.>' --storage=file --retention=work --discard=new --replicas=3"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("mends lack %q:\n%s", want, text.String())
		}
	}
	if len(unchecked) != 3 {
		t.Errorf("not checked: %v", unchecked)
	}
}

// A single server refuses three replicas, and no partition stops.
func TestOnASingleServerOfNatsTheCommandsWork(t *testing.T) {
	s := sound()
	s.Topics[0].JetStream = true
	s.Topics[0].Names = [3]string{"ORDERS", "ORDERS_DLQ.billing", "ORDERS_RETRY.billing"}
	s.Topics[0].Source.Replicas, s.Topics[0].Source.InSync = 1, 1
	s.Topics[0].Retry.Replicas, s.Topics[0].Retry.InSync = 1, 1
	s.Topics[0].DeadLetter = brokers.TopicInfo{Missing: true}
	found, _ := Look(s)
	if len(found) < 2 || found[0].Mend != "nats stream add ORDERS_DLQ --subjects='ORDERS_DLQ.>' --storage=file --retention=limits --discard=new --replicas=1 --defaults" ||
		strings.Contains(found[0].Consequence, "partition") || !strings.Contains(found[1].Mend, "--replicas=3, which takes a cluster") {
		t.Errorf("found %+v", found)
	}
}

// Who confirms what is not on disk yet is told by the broker's own name for it.
func TestWhatAPowerCutTakesIsSaidOfTheBrokerThatThereIs(t *testing.T) {
	for jetStream, words := range map[bool][2]string{false: {"flush.messages", "sync_interval"}, true: {"sync_interval", "flush.messages"}} {
		s := sound()
		s.Topics[0].JetStream = jetStream
		s.Topics[0].DeadLetter.Replicas, s.Topics[0].DeadLetter.InSync = 1, 1
		found, _ := Look(s)
		if len(found) == 0 || !strings.Contains(found[0].Consequence, words[0]) || strings.Contains(found[0].Consequence, words[1]) {
			t.Errorf("JetStream %v: %+v", jetStream, found)
		}
	}
}

func TestWhatIsPausedComesFirstAmongItsLevel(t *testing.T) {
	s := sound()
	s.Topics[0].DeadLetter.MaxAge = 365 * 24 * time.Hour
	s.Paused, s.Held = []dedup.Pause{{Who: "ann", Why: "release"}}, 1
	found, _ := Look(s)
	notes := slices.DeleteFunc(found, func(f Finding) bool { return f.Level != Note })
	if len(notes) < 3 || !strings.Contains(notes[0].What, "paused") {
		t.Errorf("notes %+v, want the pause before the others", notes)
	}
	if !slices.ContainsFunc(notes, func(f Finding) bool { return strings.HasPrefix(f.What, "1 letter is held") }) {
		t.Errorf("notes %+v", notes)
	}
}

package consumer

import (
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/dedup"
)

// normalize returns copies of c and routes with every default filled in.
//
// Errors: a [*ConfigError] with all faults of both.
func (c Config) normalize(routes []Route) (Config, []Route, error) {
	var f faults
	c.check(&f)
	c.Breaker.check(&f)
	out := make([]Route, len(routes))
	copy(out, routes)
	if len(routes) == 0 {
		f.add("Routes", "is empty", "at least one route")
	}
	scopes := make(map[string]int, len(out))
	catchAll := -1
	for i := range out {
		at := fmt.Sprintf("Routes[%d].", i)
		out[i].check(&f, at)
		if first, twice := scopes[out[i].Scope]; twice && out[i].Scope != "" {
			f.add(at+"Scope", fmt.Sprintf("is %q, as in Routes[%d]", out[i].Scope, first), "a scope of its own: two routes of one scope would answer each other's repeats")
		} else {
			scopes[out[i].Scope] = i
		}
		if catchAll >= 0 {
			f.add(at+"Match", fmt.Sprintf("is never reached, since Routes[%d] has no Match and takes everything", catchAll), "placed before it, or a Match on that one")
		} else if out[i].Match.Is == nil {
			catchAll = i
		}
		out[i].consumer = c.Name
	}
	if len(f) > 0 {
		return c, out, &ConfigError{Consumer: c.Name, Faults: f}
	}
	return c, out, nil
}

// check fills in the defaults of c and notes its faults.
func (c *Config) check(f *faults) {
	if !validConsumerName(c.Name) {
		f.add("Config.Name", "is "+quoteBounded(c.Name), "1 to 128 letters, digits, '-' and '_'")
	}
	// A nil pointer is what a constructor whose error was not looked at gives.
	if isNil(c.Broker) {
		c.Broker = nil
		f.add("Config.Broker", "is nil", "a broker, such as natsbroker.Connect gives")
	}
	if isNil(c.Store) {
		f.add("Config.Store", "is nil", "a store, such as boltstore.Open gives")
	}
	c.checkTopics(f)
	if err := c.StartFrom.Validate(); err != nil {
		f.add("Config.StartFrom", err.Error(), "consumer.Earliest, Latest, FromTime of a time, or CommittedBy another group or durable")
	} else if c.StartFrom.Kind == brokers.StartGroup && c.StartFrom.Group == c.Name {
		f.add("Config.StartFrom", "is CommittedBy("+quoteBounded(c.StartFrom.Group)+"), the consumer itself", "the name of another group or durable")
	}
	intRange(f, "Config.Workers", &c.Workers, 16, 1, maxWorkers)
	intRange(f, "Config.Unfinished.Messages", &c.Unfinished.Messages, max(6_000, 2*min(c.Workers, maxWorkers)), max(1, min(c.Workers, maxWorkers)), maxUnfinished)
	intRange(f, "Config.Unfinished.Bytes", &c.Unfinished.Bytes, 64<<20, minUnfinishedMem, 1<<40)
	durationRange(f, "Config.Lease", &c.Lease, 30*time.Second, dedup.MinLease, dedup.MaxLease)
	durationRange(f, "Config.Drain", &c.Drain, brokers.DefaultDrain, time.Millisecond, maxDrain)
	for i, m := range c.Middleware {
		if m == nil {
			f.add(fmt.Sprintf("Config.Middleware[%d]", i), "is nil", "a function, or left out")
		}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Redact == nil {
		c.Redact = func(s string) string { return s }
	}
	if c.AppVersion == "" {
		if build, ok := debug.ReadBuildInfo(); ok {
			c.AppVersion = build.Main.Version
		}
	}
	if len(c.AppVersion) > maxAppVersion || !utf8.ValidString(c.AppVersion) {
		f.add("Config.AppVersion", fmt.Sprintf("is %d bytes, or not UTF-8", len(c.AppVersion)), fmt.Sprintf("at most %d bytes of UTF-8", maxAppVersion))
	}
}

func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}

func (c *Config) checkTopics(f *faults) {
	switch {
	case len(c.Topics) == 0:
		f.add("Config.Topics", "is empty", "at least one Kafka topic or JetStream stream")
	case len(c.Topics) > maxTopics:
		f.add("Config.Topics", fmt.Sprintf("has %d entries", len(c.Topics)), fmt.Sprintf("at most %d", maxTopics))
		return
	}
	seen := make(map[string]int, len(c.Topics))
	for i, topic := range c.Topics {
		at := fmt.Sprintf("Config.Topics[%d]", i)
		if topic == "" || len(topic) > maxTopicName || strings.ContainsFunc(topic, func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }) {
			f.add(at, "is "+quoteBounded(topic), fmt.Sprintf("1 to %d bytes without spaces and control characters", maxTopicName))
			continue
		}
		if first, twice := seen[topic]; twice {
			f.add(at, fmt.Sprintf("is %q, as Config.Topics[%d]", topic, first), "listed once")
			continue
		}
		seen[topic] = i
	}
	if c.Broker == nil || !validConsumerName(c.Name) {
		return
	}
	for topic := range seen {
		own := c.Broker.Destinations(c.Name, topic)
		for _, destination := range []string{own.DeadLetter, own.Retry} {
			if i, read := seen[destination]; read {
				// A consumer that reads what it writes would make a letter of
				// every letter, for ever.
				f.add(fmt.Sprintf("Config.Topics[%d]", i), fmt.Sprintf("is %q, where this consumer itself writes for %q", destination, topic), "another topic; letters are sent back by a replay")
			}
		}
	}
}

// check fills in the defaults of b and notes its faults.
func (b *Breaker) check(f *faults) {
	floatRange(f, "Config.Breaker.Share", &b.Share, 0.5, 0, 1)
	intRange(f, "Config.Breaker.MinKeys", &b.MinKeys, 10, 2, 10_000)
	intRange(f, "Config.Breaker.Recent", &b.Recent, max(100, min(b.MinKeys, 10_000)), max(2, min(b.MinKeys, 10_000)), 100_000)
	durationRange(f, "Config.Breaker.Probe", &b.Probe, time.Second, time.Millisecond, maxProbe)
}

// check fills in the defaults of r and notes its faults under the prefix at.
func (r *Route) check(f *faults, at string) {
	if dedup.ValidateScope(r.Scope) != nil {
		f.add(at+"Scope", fmt.Sprintf("is %d bytes: %s", len(r.Scope), quoteBounded(r.Scope)), fmt.Sprintf("1 to %d bytes of UTF-8 without control characters", dedup.MaxScope))
	}
	if dedup.ReservedScope(r.Scope) {
		f.add(at+"Scope", fmt.Sprintf("is %s: scopes that begin with \"onceward.\" are its own", quoteBounded(r.Scope)), "a name of yours, such as \"order.create\"")
	}
	if r.Match.Is == nil && r.Match.Rule != "" {
		f.add(at+"Match.Is", "is nil", "a function, or the zero Match for every delivery")
	}
	r.checkExtracts(f, at)
	if r.Run == nil {
		f.add(at+"Run", "is nil", "a handler")
	}
	if r.AfterFailure > HoldKey {
		f.add(at+"AfterFailure", fmt.Sprintf("is %d", r.AfterFailure), "consumer.Continue or consumer.HoldKey")
	}
	r.Retry.check(f, at+"Retry.")
	durationRange(f, at+"Timeout", &r.Timeout, 5*time.Minute, 10*time.Millisecond, maxTimeout)
	durationRange(f, at+"Window", &r.Window, dedup.DefaultWindow, time.Second, maxWindow)
	if waits := r.Retry.waits(); r.Window < waits && r.Window > 0 {
		// A repeat may stand behind a failing message for as long as that one
		// is retried; it must find the finished record.
		f.add(at+"Window", fmt.Sprintf("is %v, shorter than the %v that %d attempts can wait", r.Window, waits, r.Retry.MaxFailures), fmt.Sprintf("at least %v, or fewer or shorter retries", waits))
	}
	if r.Classify == nil {
		r.Classify = ClassifyDefault
	}
	r.settle()
}

// checkExtracts notes the faults of what is found in a message.
func (r *Route) checkExtracts(f *faults, at string) {
	switch {
	case r.ID.wrong != "":
		f.add(at+"ID", r.ID.wrong, "an extractor such as consumer.Field(\"order_id\")")
	case r.ID.From == nil:
		f.add(at+"ID", "is not set", "an extractor such as consumer.Field(\"order_id\")")
	}
	switch {
	case r.Order.wrong != "":
		f.add(at+"Order", r.Order.wrong, "an extractor such as consumer.Field(\"customer_id\")")
	case r.Order.From == nil && r.Order.Rule != "":
		f.add(at+"Order.From", "is nil", "a function, or the zero Extract for the broker's key, else the id")
	}
	switch {
	case r.Fingerprint.wrong != "":
		f.add(at+"Fingerprint", r.Fingerprint.wrong, "a digest such as consumer.Fields(\"order_id\", \"cents\")")
	case r.Fingerprint.Sum == nil && r.Fingerprint.Rule != "":
		f.add(at+"Fingerprint.Sum", "is nil", "a function, or the zero Digest for the SHA-256 of the value")
	case r.Fingerprint.Sum != nil && r.Fingerprint.Rule == "":
		f.add(at+"Fingerprint.Rule", "is empty", "a name for how the digest is made: only digests of the same rule are compared")
	}
}

// settle works out what each message needs of a checked route.
func (r *Route) settle() {
	r.policy = &dedup.Policy{
		Failures: uint32(max(r.Retry.MaxFailures, 0)),
		Lone:     uint32(max(r.Retry.MaxLoneCrashes, 0)),
		Window:   r.Window,
		Archive:  r.Archive,
	}
	r.fingerprintRule = ruleNumber(r.Fingerprint.Rule)
	r.fields = union(union(union(nil, r.ID.fields), r.Order.fields), r.Fingerprint.fields)
}

// check fills in the defaults of r and notes its faults under the prefix at.
func (r *Retry) check(f *faults, at string) {
	intRange(f, at+"MaxFailures", &r.MaxFailures, 10, 1, 10_000)
	intRange(f, at+"MaxLoneCrashes", &r.MaxLoneCrashes, 3, 1, 100)
	durationRange(f, at+"Initial", &r.Initial, 500*time.Millisecond, time.Microsecond, maxDelay)
	floatRange(f, at+"Multiplier", &r.Multiplier, 2, 1, 10)
	durationRange(f, at+"Max", &r.Max, 5*time.Minute, time.Microsecond, maxDelay)
	if r.Initial > r.Max {
		f.add(at+"Initial", fmt.Sprintf("is %v, above Max, which is %v", r.Initial, r.Max), "at most Max")
	}
	switch {
	case r.NoJitter && r.Jitter != 0:
		f.add(at+"Jitter", fmt.Sprintf("is %v together with NoJitter", r.Jitter), "one of the two")
	case !r.NoJitter:
		floatRange(f, at+"Jitter", &r.Jitter, 0.5, 0, 1)
	}
	durationRange(f, at+"MaxBlocking", &r.MaxBlocking, 30*time.Second, time.Millisecond, maxTimeout)
}

func validConsumerName(name string) bool {
	return name != "" && len(name) <= dedup.MaxScope && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

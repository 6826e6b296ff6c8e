package consumer

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/membroker"
	"github.com/onceward/onceward/dedup"
	"github.com/onceward/onceward/dedup/memstore"
)

// named is a broker that is only asked for its destinations.
type named struct{ brokers.Broker }

func (named) Destinations(consumer, topic string) brokers.Destinations {
	return brokers.Destinations{DeadLetter: topic + "." + consumer + ".dlq", Retry: topic + "." + consumer + ".retry"}
}

type noStore struct{ dedup.Store }

func goodConfig() Config {
	return Config{Name: "billing", Broker: named{}, Topics: []string{"orders"}, StartFrom: Earliest, Store: noStore{}}
}

func goodRoute(scope string) Route {
	return Route{Scope: scope, ID: BrokerKey(), Run: func(context.Context, *Delivery) (Result, error) { return nil, nil }}
}

func TestAConfigurationOfOnlyWhatIsRequiredHasSafeDefaults(t *testing.T) {
	routes := []Route{goodRoute("order.create")}
	c, out, err := goodConfig().normalize(routes)
	if err != nil {
		t.Fatal(err)
	}
	if c.Workers != 16 || c.Unfinished != (Limit{Messages: 6000, Bytes: 64 << 20}) || c.Lease != 30*time.Second || c.Drain != 25*time.Second {
		t.Errorf("got %+v", c)
	}
	if c.Breaker != (Breaker{Share: 0.5, MinKeys: 10, Recent: 100, Probe: time.Second}) {
		t.Errorf("got %+v", c.Breaker)
	}
	if c.Logger == nil || c.Redact == nil || c.Redact("a") != "a" {
		t.Error("logger or redaction missing")
	}
	r := out[0]
	if r.Timeout != 5*time.Minute || r.Window != 14*24*time.Hour || r.Classify == nil || r.AfterFailure != Continue {
		t.Errorf("got %+v", r)
	}
	want := Retry{MaxFailures: 10, MaxLoneCrashes: 3, Initial: 500 * time.Millisecond, Multiplier: 2, Max: 5 * time.Minute, Jitter: 0.5, MaxBlocking: 30 * time.Second}
	if r.Retry != want {
		t.Errorf("got %+v", r.Retry)
	}
	if *r.policy != (dedup.Policy{Failures: 10, Lone: 3, Window: 14 * 24 * time.Hour}) {
		t.Errorf("got %+v", r.policy)
	}
	if routes[0].Timeout != 0 {
		t.Error("the caller's routes were changed")
	}
}

func TestEveryFaultIsReportedAtOnce(t *testing.T) {
	c := Config{Workers: -1, Lease: time.Millisecond, Breaker: Breaker{Share: 2, MinKeys: 1}}
	bad := goodRoute("a")
	bad.Timeout, bad.Retry.MaxFailures, bad.Window = time.Millisecond, 20_000, -1
	_, _, err := c.normalize([]Route{{}, bad})
	var config *ConfigError
	if !errors.As(err, &config) {
		t.Fatalf("got %v", err)
	}
	var fields []string
	for _, f := range config.Faults {
		fields = append(fields, f.Field)
		if f.Wrong == "" || f.Right == "" {
			t.Errorf("%+v does not say what is wrong and what would be right", f)
		}
	}
	want := "Config.Name Config.Broker Config.Store Config.Topics Config.StartFrom Config.Workers Config.Lease " +
		"Config.Breaker.Share Config.Breaker.MinKeys Routes[0].Scope Routes[0].ID Routes[0].Run " +
		"Routes[1].Retry.MaxFailures Routes[1].Timeout Routes[1].Window Routes[1].Match"
	if got := strings.Join(fields, " "); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, line := range []string{"Config.Workers is -1; right would be: 1 to 10000; 0 for the default 16", "Config.StartFrom is not set"} {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("%v\ndoes not say %q", err, line)
		}
	}
}

func TestAFaultNamesItsField(t *testing.T) {
	matching := func(scope string) Route {
		r := goodRoute(scope)
		r.Match = HeaderIs("type", scope)
		return r
	}
	for _, c := range []struct {
		name   string
		field  string
		config func(*Config)
		routes func() []Route
	}{
		{name: "no routes", field: "Routes", routes: func() []Route { return nil }},
		{name: "name with a dot", field: "Config.Name", config: func(c *Config) { c.Name = "a.b" }},
		{name: "long name", field: "Config.Name", config: func(c *Config) { c.Name = strings.Repeat("a", 129) }},
		{name: "topic with a space", field: "Config.Topics[1]", config: func(c *Config) { c.Topics = []string{"a", "b c"} }},
		{name: "topic twice", field: "Config.Topics[1]", config: func(c *Config) { c.Topics = []string{"a", "a"} }},
		{name: "own dead letters", field: "Config.Topics[1]", config: func(c *Config) { c.Topics = []string{"a", "a.billing.dlq"} }},
		{name: "own retry topic", field: "Config.Topics[0]", config: func(c *Config) { c.Topics = []string{"a.billing.retry", "a"} }},
		{name: "nil pointer to a broker", field: "Config.Broker", config: func(c *Config) { c.Broker = (*membroker.Broker)(nil) }},
		{name: "nil pointer to a store", field: "Config.Store", config: func(c *Config) { c.Store = (*memstore.Store)(nil) }},
		{name: "zero time", field: "Config.StartFrom", config: func(c *Config) { c.StartFrom = FromTime(time.Time{}) }},
		{name: "own position", field: "Config.StartFrom", config: func(c *Config) { c.StartFrom = CommittedBy("billing") }},
		{name: "unknown start", field: "Config.StartFrom", config: func(c *Config) { c.StartFrom = Start{Kind: 99} }},
		{name: "too many workers", field: "Config.Workers", config: func(c *Config) { c.Workers = 10_001 }},
		{name: "fewer deliveries than workers", field: "Config.Unfinished.Messages", config: func(c *Config) { c.Workers, c.Unfinished.Messages = 64, 10 }},
		{name: "too few bytes", field: "Config.Unfinished.Bytes", config: func(c *Config) { c.Unfinished.Bytes = 1000 }},
		{name: "long lease", field: "Config.Lease", config: func(c *Config) { c.Lease = 25 * time.Hour }},
		{name: "negative drain", field: "Config.Drain", config: func(c *Config) { c.Drain = -1 }},
		{name: "nil middleware", field: "Config.Middleware[0]", config: func(c *Config) { c.Middleware = []Middleware{nil} }},
		{name: "long version", field: "Config.AppVersion", config: func(c *Config) { c.AppVersion = strings.Repeat("v", 129) }},
		{name: "share is no number", field: "Config.Breaker.Share", config: func(c *Config) { c.Breaker.Share = math.NaN() }},
		{name: "fewer looked at than must fail", field: "Config.Breaker.Recent", config: func(c *Config) { c.Breaker.MinKeys, c.Breaker.Recent = 20, 10 }},
		{name: "long probe", field: "Config.Breaker.Probe", config: func(c *Config) { c.Breaker.Probe = time.Minute }},
		{name: "scope twice", field: "Routes[1].Scope", routes: func() []Route { return []Route{matching("a"), matching("a")} }},
		{name: "scope with a line end", field: "Routes[0].Scope", routes: func() []Route { return []Route{goodRoute("a\n")} }},
		{name: "long scope", field: "Routes[0].Scope", routes: func() []Route { return []Route{goodRoute(strings.Repeat("a", 129))} }},
		{name: "behind a route that takes all", field: "Routes[1].Match", routes: func() []Route { return []Route{goodRoute("a"), matching("b")} }},
		{name: "match without function", field: "Routes[0].Match.Is", routes: func() []Route {
			r := goodRoute("a")
			r.Match.Rule = "x"
			return []Route{r}
		}},
		{name: "path with an empty name", field: "Routes[0].ID", routes: func() []Route {
			r := goodRoute("a")
			r.ID = Field("a..b")
			return []Route{r}
		}},
		{name: "join with a bad part", field: "Routes[0].ID", routes: func() []Route {
			r := goodRoute("a")
			r.ID = Join(Header("x"), Field(""))
			return []Route{r}
		}},
		{name: "join of nothing", field: "Routes[0].ID", routes: func() []Route {
			r := goodRoute("a")
			r.ID = Join()
			return []Route{r}
		}},
		{name: "own header", field: "Routes[0].Order", routes: func() []Route {
			r := goodRoute("a")
			r.Order = Header("dl-key")
			return []Route{r}
		}},
		{name: "no fields", field: "Routes[0].Fingerprint", routes: func() []Route {
			r := goodRoute("a")
			r.Fingerprint = Fields()
			return []Route{r}
		}},
		{name: "field twice", field: "Routes[0].Fingerprint", routes: func() []Route {
			r := goodRoute("a")
			r.Fingerprint = Fields("a", "a")
			return []Route{r}
		}},
		{name: "digest without a rule", field: "Routes[0].Fingerprint.Rule", routes: func() []Route {
			r := goodRoute("a")
			r.Fingerprint.Sum = func(*Delivery) (s [32]byte, err error) { return s, nil }
			return []Route{r}
		}},
		{name: "typed route without functions", field: "Routes[0].Run", routes: func() []Route {
			return []Route{JSON("a", func(string) string { return "" }, nil)}
		}},
		{name: "window shorter than the waits", field: "Routes[0].Window", routes: func() []Route {
			r := goodRoute("a")
			r.Window = time.Minute
			return []Route{r}
		}},
		{name: "initial above the maximum", field: "Routes[0].Retry.Initial", routes: func() []Route {
			r := goodRoute("a")
			r.Retry.Initial = time.Hour
			return []Route{r}
		}},
		{name: "jitter and none", field: "Routes[0].Retry.Jitter", routes: func() []Route {
			r := goodRoute("a")
			r.Retry.Jitter, r.Retry.NoJitter = 0.1, true
			return []Route{r}
		}},
		{name: "multiplier below 1", field: "Routes[0].Retry.Multiplier", routes: func() []Route {
			r := goodRoute("a")
			r.Retry.Multiplier = 0.5
			return []Route{r}
		}},
		{name: "lone crashes", field: "Routes[0].Retry.MaxLoneCrashes", routes: func() []Route {
			r := goodRoute("a")
			r.Retry.MaxLoneCrashes = 101
			return []Route{r}
		}},
		{name: "unknown behaviour", field: "Routes[0].AfterFailure", routes: func() []Route {
			r := goodRoute("a")
			r.AfterFailure = 9
			return []Route{r}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, routes := goodConfig(), []Route{goodRoute("a")}
			if c.config != nil {
				c.config(&config)
			}
			if c.routes != nil {
				routes = c.routes()
			}
			_, _, err := config.normalize(routes)
			var fault *ConfigError
			if !errors.As(err, &fault) || len(fault.Faults) != 1 || fault.Faults[0].Field != c.field {
				t.Errorf("got %v, want one fault of %s", err, c.field)
			}
		})
	}
}

func TestTheBoundsOfEachFieldAreIncluded(t *testing.T) {
	for _, extreme := range []struct {
		c Config
		r Route
	}{
		{
			Config{Workers: 1, Unfinished: Limit{Messages: 1, Bytes: 1 << 20}, Lease: time.Second, Drain: time.Millisecond, Breaker: Breaker{Share: 1, MinKeys: 2, Recent: 2, Probe: time.Millisecond}},
			Route{Timeout: 10 * time.Millisecond, Window: time.Second, Retry: Retry{MaxFailures: 1, MaxLoneCrashes: 1, Initial: time.Microsecond, Multiplier: 1, Max: time.Microsecond, Jitter: 1, MaxBlocking: time.Millisecond}},
		},
		{
			Config{Workers: 10_000, Unfinished: Limit{Messages: 1_000_000, Bytes: 1 << 40}, Lease: 24 * time.Hour, Drain: time.Hour, Breaker: Breaker{Share: 1, MinKeys: 10_000, Recent: 100_000, Probe: 30 * time.Second}},
			Route{Timeout: 24 * time.Hour, Window: 3650 * 24 * time.Hour, Retry: Retry{MaxFailures: 10_000, MaxLoneCrashes: 100, Initial: 5 * time.Minute, Multiplier: 10, Max: time.Hour, NoJitter: true, MaxBlocking: 24 * time.Hour}},
		},
	} {
		c, good := extreme.c, goodConfig()
		c.Name, c.Broker, c.Topics, c.StartFrom, c.Store = strings.Repeat("a", 128), good.Broker, good.Topics, good.StartFrom, good.Store
		r, full := extreme.r, goodRoute(strings.Repeat("s", 128))
		r.Scope, r.ID, r.Run = full.Scope, full.ID, full.Run
		if _, _, err := c.normalize([]Route{r}); err != nil {
			t.Error(err)
		}
	}
}

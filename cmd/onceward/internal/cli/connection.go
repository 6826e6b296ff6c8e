package cli

import (
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/onceward/onceward/cmd/onceward/internal/address"
	"github.com/onceward/onceward/deadletter"
)

// connection is what the flags say of where to look.
type connection struct {
	from, store, via, tokenFile string
	consumer, source            string
	window                      time.Duration
	create, mayCreate           bool // mayCreate: the command has the flag
	who                         string
	envelope, idFrom, scope     string
	// both says that the environment names two ways to the records, and no flag
	// one of them.
	both bool
}

// answers refuses a file where copies are waited for: nobody answers them while
// the command holds it.
func (f *connection) answers(a *app, what string) error {
	if f.environment(a); f.via == "" && f.store != "" {
		return usage("%s a running consumer answers, and none runs while its file is open here: start it and use --via URL", what)
	}
	return nil
}

// flags adds those of every command that looks somewhere; letters, those of
// commands about dead letters.
func (f *connection) flags(c *cobra.Command, letters bool) {
	s := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.StringVar(&f.store, "store", "", "the consumer's `STORE`: bolt:FILE (default $ONCEWARD_STORE)")
	s.StringVar(&f.via, "via", "", "`URL` at which a running consumer serves consumer.Admin; it has letters and records (default $ONCEWARD_VIA)")
	s.StringVar(&f.tokenFile, "token-file", "", "`file` with the token for --via (default: the token in $ONCEWARD_TOKEN)")
	s.StringVar(&f.consumer, "consumer", "", "`name` of the consumer (default: what the names of topic or letters say)")
	s.StringVar(&f.who, "who", "", "`name` kept with every change; with a token it is the token's (default: you)")
	s.StringVar(&f.from, "from", "", "dead-letter topic, `ADDRESS` (default $ONCEWARD_FROM):\n"+address.Usage)
	s.StringVar(&f.source, "source", "", "`topic` or stream that the consumer reads (default: what the name of the dead-letter topic says)")
	if !letters {
		addGroup(c, groupWhere, s)
		return
	}
	s.DurationVar(&f.window, "window", 0, "`time` that the consumer's store remembers what is finished (default: what the consumer or its records say, or 336h)")
	addGroup(c, groupWhere, s)
	s = pflag.NewFlagSet("", pflag.ContinueOnError)
	s.StringVar(&f.envelope, "envelope", "", "`form` of the letters: auto, onceward, spring, watermill, connect, streams or bare\n(default: onceward where the name of the topic is, else auto)")
	s.StringVar(&f.idFrom, "id-from", "", "`rule` that finds the business id in letters of others: field:PATH, header:NAME or broker-key")
	s.StringVar(&f.scope, "scope", "", "`scope` of the key that --id-from makes")
	f.flagCreate(s, ", for letters of others")
	addGroup(c, groupForeign, s)
	complete(c, "envelope", words(deadletter.Envelopes())...)
}

func (f *connection) flagCreate(s *pflag.FlagSet, what string) {
	f.mayCreate = true
	s.BoolVar(&f.create, "create", false, "make the file of --store where there is none"+what)
}

// environment fills in what flags leave open. Two ways to the same are not
// mixed: who gives one as a flag means that one alone.
func (f *connection) environment(a *app) {
	via, store := f.via != "", f.store != ""
	if f.from == "" && !via {
		f.from = a.Getenv("ONCEWARD_FROM")
	}
	if f.store == "" && !via {
		f.store = a.Getenv("ONCEWARD_STORE")
	}
	if f.via == "" && !store {
		f.via = a.Getenv("ONCEWARD_VIA")
	}
	f.both = f.both || !via && !store && f.via != "" && f.store != ""
	if f.who == "" {
		f.who = "unknown"
		if u, err := user.Current(); err == nil && u.Username != "" {
			f.who = u.Username
		}
		if host, err := os.Hostname(); err == nil {
			f.who += "@" + host
		}
	}
	f.who = short(f.who, 200)
}

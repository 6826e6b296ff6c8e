package service

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// Flags is a set of flags, each of which may be given in the environment
// instead.
func (p *Process) Flags() *flag.FlagSet { return flag.NewFlagSet(p.Name, flag.ContinueOnError) }

// variable is the name of a flag in the environment: --ack-wait of nats-orders
// is NATS_ORDERS_ACK_WAIT.
func (p *Process) variable(flag string) string {
	return strings.ToUpper(strings.ReplaceAll(p.Name+"-"+flag, "-", "_"))
}

// help says how the program is called.
func (p *Process) help(f *flag.FlagSet) {
	fmt.Fprintf(p.Stderr, "Usage: %s\n\n", strings.Join(p.Usage, "\n       "))
	first := ""
	f.VisitAll(func(x *flag.Flag) {
		if first == "" {
			first = x.Name
		}
	})
	fmt.Fprintf(p.Stderr, "Flags; each may be set in the environment instead, --%s as %s. A flag wins.\n\n", first, p.variable(first))
	f.SetOutput(p.Stderr)
	f.PrintDefaults()
	if f.Lookup("listen") != nil {
		fmt.Fprint(p.Stderr, "\nHealth, on --listen: /livez and /readyz answer 200 or 503, /status in JSON. 503 of /livez: restart it.\n"+
			"There too, below /v1/, the operator's interface: onceward --via http://ADDRESS\n")
	}
	fmt.Fprintf(p.Stderr, "\nExit status: %d in order; %d could not start, or cannot go on without a person; %d wrong flags; %d a second signal.\n",
		OK, Failed, Usage, AtOnce)
}

// Parse reads the environment, then the flags, which win.
//
// Errors: a [*UsageError]; [flag.ErrHelp] when help was asked for and given.
func (p *Process) Parse(f *flag.FlagSet) error {
	var wrong error
	f.VisitAll(func(x *flag.Flag) {
		if value := p.Getenv(p.variable(x.Name)); value != "" && wrong == nil {
			if err := x.Value.Set(value); err != nil {
				wrong = &UsageError{fmt.Errorf("%s: %w", p.variable(x.Name), err)}
			}
		}
	})
	if wrong != nil {
		return wrong
	}
	f.SetOutput(io.Discard) // the error says it, once
	err := f.Parse(p.Args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		p.help(f)
		return err
	case err == nil && f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err != nil {
		return &UsageError{err}
	}
	return nil
}

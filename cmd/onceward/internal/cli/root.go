package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/cmd/onceward/internal/plain"
)

// Process is what the command takes from outside.
type Process struct {
	Args   []string
	Stdin  io.Reader
	Stdout io.Writer // data
	Stderr io.Writer // talk
	Getenv func(string) string
	// Terminal says that Stdin is one, so that questions can be asked.
	Terminal bool
}

// app is one call of the command.
type app struct {
	*Process
	out, talk io.Writer // Stdout and Stderr, without what a terminal would obey
	json      bool
	quiet     bool
	yes       bool
	began     bool            // flags and arguments were right
	ended     <-chan struct{} // closed by a signal
}

// Run runs the command and returns its exit code. It blocks until all is done,
// or ctx ends and what was begun has been ended.
func Run(ctx context.Context, p *Process) int {
	a := &app{Process: p, out: plain.Writer{W: p.Stdout}, talk: plain.Writer{W: p.Stderr}, ended: ctx.Done()}
	root := a.root()
	root.SetArgs(p.Args)
	root.SetIn(p.Stdin)
	root.SetErr(a.talk)
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		return Done
	}
	var e *exit
	if !a.began && !errors.As(err, &e) {
		err = &exit{Usage, err}
	}
	if text := err.Error(); text != "" {
		fmt.Fprintf(a.talk, "onceward: %s\n", text)
	}
	if code(err) == Usage && err.Error() != "" { // else the help itself was shown
		fmt.Fprintf(a.talk, "  %s --help says more\n", c.CommandPath())
	}
	if text := advice(err); text != "" {
		fmt.Fprintf(a.talk, "  %s\n", text)
	}
	return code(err)
}

func (a *app) root() *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "onceward",
		Short: "Dead letters and records of onceward consumers",
		Long: `onceward shows what consumers have left behind, dead letters and records, and
works it off.

Where to look: --from the dead-letter topic and --store the consumer's store, or
--via a running consumer, which has both; or $ONCEWARD_FROM, $ONCEWARD_STORE and
$ONCEWARD_VIA. Data goes to stdout, talk to stderr.

Exit status: 0 done; 1 failed; 2 wrong flags; 3 nothing matched; 4 partly done,
refused, or found wanting.`,
		Example: `  onceward dlq groups --via http://127.0.0.1:8080
  onceward doctor --via http://127.0.0.1:8080`,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := noNegatives(c); err != nil {
				return err
			}
			if err := noEmpties(c); err != nil {
				return err
			}
			a.began = true
			return nil
		},
		Args: noArguments,
		RunE: func(c *cobra.Command, args []string) error {
			if version {
				return a.showVersion()
			}
			return help(c, args)
		},
	}
	root.Flags().BoolVar(&version, "version", false, "which release this is")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "data as JSON: one object, or one a line for lists")
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "no progress")
	root.AddCommand(a.dlq(), a.record(), a.pause(), a.resume(), a.doctor(), a.version())
	root.SetHelpCommand(helpCommand())
	root.SetUsageFunc(writeUsage)
	root.SetFlagErrorFunc(flagFault)
	// Completion scripts go to stdout as they are: they are the command's own.
	root.SetOut(a.Stdout)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = noArguments, help
		}
	}
	sayArguments(root)
	completeNoFiles(root)
	return root
}

// help is what a command that has others below does by itself.
func help(c *cobra.Command, _ []string) error {
	c.SetOut(c.ErrOrStderr())
	if err := c.Help(); err != nil {
		return err
	}
	return &exit{code: Usage}
}

// group is a command that only has others below it.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noArguments, RunE: help}
	c.AddCommand(below...)
	return c
}

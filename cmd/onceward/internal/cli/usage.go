package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Groups of flags that several commands have. A command's own come first in its
// help, which is what somebody looks for.
const (
	groupLetters = "Which letters"
	groupWhere   = "Where to look"
	groupForeign = "Letters of other software"
)

const groupMark = "onceward_group"

// addGroup gives a command flags under a title of their own.
func addGroup(c *cobra.Command, title string, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{groupMark: {title}} })
	c.Flags().AddFlagSet(flags)
}

// writeUsage is the help of a command after what it is about.
func writeUsage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", c.CommandPath())
	} else {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() || below.Name() == "help" {
				fmt.Fprintf(&b, "  %-*s  %s\n", below.NamePadding(), below.Name(), below.Short)
			}
		}
	}
	groups := map[string]*pflag.FlagSet{}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		title := "Flags"
		if mark := f.Annotations[groupMark]; len(mark) == 1 {
			title = mark[0]
		}
		if groups[title] == nil {
			groups[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			groups[title].SortFlags = c.Flags().SortFlags
		}
		groups[title].AddFlag(f)
	})
	if c.HasParent() {
		groups["Every command"] = c.InheritedFlags()
	}
	for _, title := range []string{"Flags", groupLetters, groupWhere, groupForeign, "Every command"} {
		if g := groups[title]; g != nil && g.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n%s:\n%s", title, g.FlagUsages())
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help says more of one of them.\n", c.CommandPath())
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

// helpCommand is help as a command, which knows what there is no help about.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND…]", Short: "Help about a command",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, below := range about.Commands() {
				if below.IsAvailableCommand() {
					names = append(names, below.Name()+"\t"+below.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil {
				return usage("there is no command %q", strings.Join(args, " "))
			}
			if len(rest) > 0 && about.HasSubCommands() {
				return noArguments(about, rest)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

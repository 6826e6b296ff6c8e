package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// noArguments names an unknown subcommand as what it is.
func noArguments(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !c.HasSubCommands():
		return usage("%s takes no argument such as %q", c.CommandPath(), args[0])
	}
	c.SuggestionsMinimumDistance = max(c.SuggestionsMinimumDistance, 2)
	meant := ""
	if near := slices.Compact(c.SuggestionsFor(args[0])); len(near) > 0 {
		meant = "; is it " + strings.Join(near, " or ") + "?"
	}
	return usage("there is no command %q%s", strings.TrimPrefix(c.CommandPath()+" "+args[0], c.Root().Name()+" "), meant)
}

// meaning has a command proposed to those who call it by another command's word.
func meaning(c *cobra.Command, words ...string) *cobra.Command {
	c.SuggestFor = words
	return c
}

// sayArguments lets all commands below c say which argument is missing, or too
// many, by the names that their usage has.
func sayArguments(c *cobra.Command) {
	for _, below := range c.Commands() {
		sayArguments(below)
	}
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := check(c, args)
		var said *exit
		if err == nil || errors.As(err, &said) {
			return err
		}
		form := c.CommandPath() + strings.TrimPrefix(c.Use, c.Name())
		if names := argumentNames(c.Use); len(args) < len(names) {
			return usage("%s is missing: %s", names[len(args)], form)
		}
		return usage("too many arguments: %s", form)
	}
}

// completeNoFiles keeps the shell from offering files where a command takes none.
func completeNoFiles(c *cobra.Command) {
	for _, below := range c.Commands() {
		completeNoFiles(below)
	}
	if c.ValidArgsFunction == nil && !slices.Contains(argumentNames(c.Use), "FILE") {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
}

// argumentNames are those that a usage line names before its flags.
func argumentNames(use string) []string {
	var names []string
	for _, word := range strings.Fields(use)[1:] {
		if strings.HasPrefix(word, "-") || word == "|" {
			break
		}
		names = append(names, strings.Trim(word, "[]…"))
	}
	return names
}

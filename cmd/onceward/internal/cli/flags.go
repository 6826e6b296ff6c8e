package cli

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/onceward/onceward/dedup"
)

// flagFault says what is wrong with a flag, and what it wants instead.
func flagFault(c *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		f := value.GetFlag()
		if want := wanted(f); want != "" {
			return usage("--%s must be %s, not %q", f.Name, want, value.GetValue())
		}
	case errors.As(err, &missing):
		f := missing.GetFlag()
		name, _ := pflag.UnquoteUsage(f)
		return usage("--%s lacks its value: --%s %s", f.Name, f.Name, name)
	case errors.As(err, &unknown):
		if letters := unknown.GetSpecifiedShortnames(); letters != "" {
			return usage("there is no flag -%s", letters)
		}
		name := unknown.GetSpecifiedName()
		if other := sameSense[name]; other != "" && c.Flags().Lookup(other) != nil {
			return usage("there is no flag --%s; is it --%s?", name, other)
		}
		return usage("there is no flag --%s", name)
	}
	return &exit{Usage, err}
}

// sameSense are flags that say the same of different commands: --reason chooses
// letters where there is --why.
var sameSense = map[string]string{"why": "reason", "reason": "why"}

func wanted(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int64":
		return "a whole number"
	case "float64":
		return "a number"
	case "duration":
		return "a time such as 30s, 15m or 24h"
	case "bool":
		return "true or false"
	}
	return ""
}

// noEmpties refuses flags without a value, such as that of a variable which is
// not set: --approve "$ID" would mean all letters, and --scope "$SCOPE" the whole
// consumer.
func noEmpties(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == ""
		if list, several := f.Value.(pflag.SliceValue); several {
			values := list.GetSlice()
			empty = len(values) == 0 || slices.Contains(values, "")
		}
		if empty && err == nil {
			name, _ := pflag.UnquoteUsage(f)
			err = usage("--%s is empty: --%s %s", f.Name, f.Name, name)
		}
	})
	return err
}

// noNegatives refuses flags that are below zero: there is no number and no time
// here that may be.
func noNegatives(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		below := false
		switch text := f.Value.String(); f.Value.Type() {
		case "int", "int64", "duration":
			below = strings.HasPrefix(text, "-")
		case "float64":
			n, parsed := strconv.ParseFloat(text, 64)
			below = parsed != nil || !(n >= 0) || math.IsInf(n, 0)
		}
		if below && err == nil {
			err = usage("--%s must be %s of 0 or more, not %s", f.Name, wanted(f), f.Value)
		}
	})
	return err
}

// checkReason refuses a --reason that says nothing, or more than is kept.
func checkReason(why string) error {
	if why == "" || len(why) > dedup.MaxError {
		return usage("--reason must say why, in at most %d bytes", dedup.MaxError)
	}
	return nil
}

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// versionShown is what version says with --json.
type versionShown struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitzero"`
	Go       string `json:"go"`
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Which release this is; so does --version", Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return a.showVersion() },
	}
}

func (a *app) showVersion() error {
	v := versionShown{Version: "unknown", Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
	}
	if a.json {
		return a.object(v)
	}
	said := slices.DeleteFunc([]string{"onceward", v.Version, v.Revision, v.Go}, func(s string) bool { return s == "" })
	_, err := fmt.Fprintln(a.out, strings.Join(said, " "))
	return err
}

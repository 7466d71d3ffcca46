// Package signal has the commands of "weir signal".
//
// For authors they write a new signal, test it, measure it and run it. These commands need no cluster. The others show
// and restart the signal processes of a pool, and compare a shadow with the pinned version. [Command] returns the
// commands. One goroutine uses them.
package signal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/cli/scaffold"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// commands are the commands of "weir signal".
type commands struct{ *connect.CLI }

// Command returns "weir signal" with its subcommands.
func Command(c *connect.CLI) *cobra.Command {
	cli := &commands{c}
	cmd := &cobra.Command{
		Use:   "signal",
		Short: "Write, test, run and inspect signals",
		Long: `Write, test, run and inspect signals: programs that turn metrics into resource requests.
"weir release" publishes them. docs/signals.md is a tutorial, from an empty folder to a
published signal.`,
		Example: `  weir signal init requests
  weir signal ps`,
		Args: command.Group,
		RunE: command.Help,
	}
	cmd.AddCommand(
		cli.initCommand(), cli.testCommand(), cli.benchCommand(), cli.runCommand(),
		cli.psCommand(), cli.restartCommand(), cli.logsCommand(), cli.shadowCommand(),
		cli.whereCommand(),
	)
	return cmd
}

func (cli *commands) initCommand() *cobra.Command {
	var c scaffold.Config
	var lang, dir string
	cmd := &cobra.Command{
		Use:   "init NAME",
		Short: "Write a new signal with a test that passes",
		Long: `Write a new signal into a folder of its name: one function from metrics to
resources, its test, and the next commands. It overwrites nothing.

A signal in Go requires the SDK in the version of this weir, or in that of
--sdk-version; the Go command fetches it. With --sdk it takes a source tree.`,
		Example: `  weir signal init requests
  weir signal init requests --sdk-version v1.2.3
  weir signal init requests --sdk ~/src/weirkeeper
  weir signal init queue --lang python --dir ./signals/queue`,
		Args: command.OneArg("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Name, c.Lang = args[0], scaffold.Lang(lang)
			if c.SDKVersion != "" && !cmd.Flags().Changed("sdk") {
				c.SDK = "" // the flag wins over WEIR_SDK
			}
			if c.Lang == scaffold.Go && c.SDK == "" && c.SDKVersion == "" {
				version, ok := releasedVersion()
				if !ok {
					return usage.New(fmt.Errorf("write signal %s: this weir was built without a version (%s), so the version of the SDK is unknown: "+
						"name a released version with --sdk-version, or a source tree of weir with --sdk", c.Name, version))
				}
				c.SDKVersion = version
			}
			if err := c.Validate(); err != nil {
				return usage.New(err)
			}
			if dir == "" {
				dir = c.Name
			}
			files, err := scaffold.Write(dir, c)
			if errors.Is(err, scaffold.ErrNoSource) {
				return usage.New(fmt.Errorf("--sdk: %w", err))
			}
			if errors.Is(err, scaffold.ErrExists) {
				return usage.New(err)
			}
			if err != nil {
				return err
			}
			for _, f := range files {
				fmt.Fprintln(cli.Stdout, filepath.Join(dir, f))
			}
			fmt.Fprintf(cli.Stdout, "Next: cd %s, and follow its README.md\n", dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&lang, "lang", string(scaffold.Go), "go or python")
	cmd.Flags().StringVar(&c.SDK, "sdk", os.Getenv("WEIR_SDK"), "source tree of weir, for a replace line in go.mod (WEIR_SDK)")
	cmd.Flags().StringVar(&c.SDKVersion, "sdk-version", "", "version of weir that go.mod requires (default: that of this weir)")
	cmd.Flags().StringVar(&dir, "dir", "", "folder to write (default: NAME)")
	return cmd
}

// releasedVersion returns the version of this binary, and whether the Go command
// can fetch it: a tag or a commit, without changes to the tree.
func releasedVersion() (version string, ok bool) {
	version = daemon.BuildVersion()
	return version, isReleased(version)
}

// isReleased reports whether a version has no "+dirty" or other build suffix.
func isReleased(version string) bool {
	return semver.IsValid(version) && semver.Build(version) == ""
}

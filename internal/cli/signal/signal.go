// Package signal has the commands of "weir signal".
//
// For authors they write a new signal, test it, measure it and run it. These commands need no cluster. The others show
// and restart the signal processes of a pool, and compare a shadow with the pinned version. [Command] returns the
// commands. One goroutine uses them.
package signal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/cli/scaffold"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// commands are the commands of "weir signal".
type commands struct{ *connect.CLI }

// Command returns "weir signal" with its subcommands.
func Command(c *connect.CLI) *cobra.Command {
	cli := &commands{c}
	cmd := &cobra.Command{
		Use:     "signal",
		Aliases: []string{"signals"},
		Short:   "Write, test, run and inspect signals",
		Long: `Write, test, run and inspect signals: programs that turn metrics into resource requests.
"weir release" publishes them. docs/signals.md is a tutorial, from an empty folder to a
published signal.`,
		Example: `  weir signal init requests
  weir signal ps`,
		Args: command.Group,
		RunE: command.Help,
	}
	cmd.AddCommand(
		cli.initCommand(), cli.testCommand(), cli.benchCommand(), cli.runCommand(), cli.tryCommand(),
		cli.psCommand(), cli.restartCommand(), cli.logsCommand(), cli.shadowCommand(),
		cli.whereCommand(),
	)
	return cmd
}

// initFlags are those of "weir signal init".
type initFlags struct {
	language, dir string
	sdk           scaffold.SDK
	offline       bool
}

func (f *initFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.language, "language", string(scaffold.Go), "go or python")
	flags.StringVar(&f.sdk.Tree, "sdk", os.Getenv("WEIR_SDK"), "source tree of weir, for a replace line in go.mod (WEIR_SDK)")
	flags.StringVar(&f.sdk.Version, "sdk-version", "", "version of weir that go.mod requires (default: that of this weir)")
	flags.BoolVar(&f.offline, "offline", false, "copy the SDK that is installed with this weir; the Go command then needs no network")
	flags.StringVar(&f.dir, "dir", "", "folder to write (default: NAME)")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "lang" { // its earlier name
			name = "language"
		}
		return pflag.NormalizedName(name)
	})
}

func (cli *commands) initCommand() *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init NAME",
		Short: "Write a new signal with a test that passes",
		Long: `Write a new signal into a folder of its name: one function from metrics to
resources, its test, and the next commands. It overwrites nothing.

A signal in Go requires the SDK. If this weir was built in a source tree, go.mod
has a replace line for that tree. A release requires its own version, which the
Go command fetches now. With --offline the folder gets the copy of the SDK that a
package of weir installs. The command prints its choice; --sdk-version and --sdk
select another version or tree.

A signal in Python gets the module weirsignal, one file of the standard library.`,
		Example: `  weir signal init requests
  weir signal init requests --offline
  weir signal init requests --sdk-version v1.2.3
  weir signal init requests --sdk ~/src/weirkeeper
  weir signal init queue --language python --dir ./signals/queue`,
		Args: command.OneArg("name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.initSignal(cmd.Context(), args[0], f, cmd.Flags().Changed("sdk"))
		},
	}
	f.flags(cmd)
	return cmd
}

// initSignal writes a new signal. A flag wins over WEIR_SDK, which treeNamed tells apart.
func (cli *commands) initSignal(ctx context.Context, name string, f initFlags, treeNamed bool) error {
	c := scaffold.Config{Name: name, Lang: scaffold.Lang(f.language), SDK: f.sdk}
	if (f.offline || c.SDK.Version != "") && !treeNamed {
		c.SDK.Tree = ""
	}
	if f.offline && c.SDK != (scaffold.SDK{}) {
		return usage.New(fmt.Errorf("write signal %s: --offline has the SDK of this installation: omit --sdk and --sdk-version", name))
	}
	why := ""
	if c.Lang == scaffold.Go && c.SDK == (scaffold.SDK{}) {
		var err error
		if c.SDK, why, err = thisInstallation().sdk(f.offline); err != nil {
			return usage.New(fmt.Errorf("write signal %s: %w", name, err))
		}
	}
	if err := c.Validate(); err != nil {
		return usage.New(err)
	}
	dir := cmp.Or(f.dir, name)
	files, err := scaffold.Write(ctx, dir, c)
	switch {
	case errors.Is(err, scaffold.ErrNoSource), errors.Is(err, scaffold.ErrExists):
		return usage.New(fmt.Errorf("write signal %s: %w", name, err))
	case err != nil:
		return fmt.Errorf("write signal %s: %w", name, err)
	}
	for _, f := range files {
		fmt.Fprintln(cli.Stdout, filepath.Join(dir, f))
	}
	if why != "" {
		fmt.Fprintln(cli.Stdout, why)
	}
	fmt.Fprintf(cli.Stdout, "Next: cd %s, and follow its README.md\n", dir)
	return nil
}

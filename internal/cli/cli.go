// Package cli is the command line of weir: flags and printing only.
//
// Each noun of the command line has a package below this one, which returns its commands: [Commands] assembles them.
// Nouns do not import each other. What two of them share is in the packages command, connect, cell and progress. The
// program cmd/weir calls [Main]. A process runs one command.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/app"
	"github.com/weirkeeper/weirkeeper/internal/cli/calendar"
	"github.com/weirkeeper/weirkeeper/internal/cli/cluster"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/cli/daemons"
	"github.com/weirkeeper/weirkeeper/internal/cli/manpages"
	"github.com/weirkeeper/weirkeeper/internal/cli/node"
	"github.com/weirkeeper/weirkeeper/internal/cli/pool"
	"github.com/weirkeeper/weirkeeper/internal/cli/prices"
	"github.com/weirkeeper/weirkeeper/internal/cli/releases"
	"github.com/weirkeeper/weirkeeper/internal/cli/signal"
	"github.com/weirkeeper/weirkeeper/internal/cli/simulation"
	"github.com/weirkeeper/weirkeeper/internal/cli/stored"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/platform/atrest"
)

// Main runs weir with the arguments and streams of this process, and returns its exit code.
func Main() int {
	command.NameProcess(os.Args[0])
	atrest.Start()
	return Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// Run executes a command line and returns the exit code of the process.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := &command.Root{Stdin: stdin, Stdout: stdout, Stderr: stderr, Settings: daemon.Settings{Program: command.Self}}
	err := root.Run(Commands(root), args)
	if errors.Is(err, autoscalerd.ErrRestartNeeded) {
		return api.ExitRestart
	}
	return command.ExitCode(err)
}

// Commands returns the root command with all commands below it.
func Commands(of *command.Root) *cobra.Command {
	cli := &connect.CLI{Root: of}
	root := cli.Command()
	// Not cobra's own flag: its template would link text/template, for which the linker keeps all methods.
	version := root.Flags().BoolP("version", "v", false, "print the version, as \"weir version\" does")
	help := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version {
			_, err := fmt.Fprintln(cli.Stdout, versionText())
			return err
		}
		return help(cmd, args)
	}
	root.Long = `Weirkeeper scales pools of machines, keeps the configured number of application
instances running, and repairs unhealthy machines.

To try all of it on this machine, run "weir up", and in another terminal:
  weir app set web --instances 5 --command 'while :; do date; sleep 5; done'
  weir status
  weir explain`
	root.AddCommand(
		command.Up(func(context.Context, command.UpOptions) error { return command.ReplaceWithLocal("weir up") }),
		node.Command(cli), app.Command(cli), signal.Command(cli), calendar.Command(cli), releases.Command(cli), stored.Command(cli),
		(&versionCommands{cli}).versionCommand(), simulation.Command(cli), prices.Command(cli),
	)
	root.AddCommand(pool.Commands(cli, simulation.Savings)...)
	root.AddCommand(cluster.Commands(cli, simulation.Compare)...)
	root.AddCommand(daemons.Commands(cli)...)
	root.AddCommand(manpages.Commands(daemon.BuildVersion())...)
	sortIntoGroups(root)
	(&completion{cli}).completeNames(root)
	return root
}

// sortIntoGroups gives each command its group in the help of weir. The daemons are the last one.
func sortIntoGroups(root *cobra.Command) {
	of := map[string]string{}
	for _, g := range []struct{ title, names string }{
		{"Look at a pool:", "status explain events diff decide cost doctor"},
		{"Plan and change a pool:", "plan simulate prices pool node pause resume offset"},
		{"Applications, signals and calendars:", "app signal release metrics calendar"},
		{"Set up:", "up config context nats state version"},
		{"Daemons:", "bootstrap autoscaler placer harmonizer agent notify web auth"},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for name := range strings.FieldsSeq(g.names) {
			of[name] = g.title
		}
	}
	for _, c := range root.Commands() {
		c.GroupID = of[c.Name()]
	}
	root.SetHelpCommandGroupID("Set up:")
	root.SetCompletionCommandGroupID("Set up:")
}

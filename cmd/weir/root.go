// Command weir scales pools of machines, keeps the configured number of application
// instances running, and repairs unhealthy machines. "weir help" lists its commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
)

func main() {
	command.NameProcess(os.Args[0])
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// shared holds what all commands use: streams, the flags of the root, and --output.
type shared struct {
	command.Root
	form   string // --output
	output string // "table", or "json" for any other form: see formFlag
	names  func(value any) []string
	args   []string // arguments of the command line
}

// run executes the command line and returns the exit code of the process.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cli := &shared{Root: command.Root{Stdin: stdin, Stdout: stdout, Stderr: stderr, Settings: command.Settings{Program: command.Self}}}
	cli.args = args
	err := cli.Run(cli.root(), args)
	if errors.Is(err, autoscalerd.ErrRestartNeeded) {
		return bootstrap.ExitRestart
	}
	return command.ExitCode(err)
}

func (cli *shared) root() *cobra.Command {
	root := cli.Command()
	// Not cobra's own flag: its template would link text/template, for which the linker keeps all methods.
	version := root.Flags().Bool("version", false, "print the version, as \"weir version\" does")
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
  weir app set web --instances 5 --cpus 0.2 --mem 64 --command 'while :; do date; sleep 5; done'
  weir status
  weir explain`
	pool, node, signals := &poolCommands{cli}, &healthCommands{cli}, &signalCommands{cli}
	daemons, about := &daemonCommands{cli}, &aboutCommands{cli}
	root.AddCommand(
		command.Up(func(context.Context, command.UpOptions) error { return command.ReplaceWithLocal("weir up", cli.args) }),
		(&statusCommands{cli}).statusCommand(), pool.explainCommand(), pool.planCommand(), (&decideCommands{cli}).decideCommand(),
		pool.pauseCommand(), pool.resumeCommand(), pool.offsetCommand(), pool.poolCommand(), node.nodeCommand(), (&appCommands{cli}).appCommand(),
		(&stateCommands{cli}).stateCommand(), (&natsCommands{cli}).natsCommand(), signals.signalCommand(), signals.releaseCommand(),
		(&metricsCommands{cli}).metricsCommand(), daemons.bootstrapCommand(), daemons.autoscalerCommand(), daemons.agentCommand(), daemons.authCommand(),
		(&harmonizerCommands{cli}).harmonizerCommand(), about.configCommand(), about.doctorCommand(), about.versionCommand(), daemons.keepCommand(),
	)
	(&completion{cli}).completeNames(root)
	return root
}

// poolArg accepts the name of the pool as the only argument, in place of --pool.
func (cli *shared) poolArg(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return command.OneArg("pool")(cmd, args)
	}
	if len(args) == 1 {
		return cli.usePool(cmd, args[0])
	}
	return nil
}

// usePool makes the pool that an argument names the pool of the command. Two different names are a mistake.
func (cli *shared) usePool(cmd *cobra.Command, name string) error {
	if cmd.Flags().Changed("pool") && cli.Pool != name {
		return command.Usage(fmt.Errorf("%s has two pools: %q, and %q of --pool; give one of them\nSee %q", cmd.CommandPath(), name, cli.Pool, cmd.CommandPath()+" --help"))
	}
	cli.Pool = name
	return nil
}

// poolRule is in the help of commands with a pool and another argument.
const poolRule = `The pool is the first of two arguments. A single argument is the %s, for the pool of
--pool.`

// poolThen accepts [POOL] [WHAT]: of two arguments the first is the pool, and a single one is not. lastOf returns WHAT
// of the same arguments.
func (cli *shared) poolThen(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 2:
			return command.Usage(fmt.Errorf("%s wants one %s, and a pool before it, but got %d arguments\nSee %q", cmd.CommandPath(), what, len(args), cmd.CommandPath()+" --help"))
		case len(args) == 2:
			return cli.usePool(cmd, args[0])
		}
		return nil
	}
}

// lastOf returns the last argument alone, if there is one.
func lastOf(args []string) []string { return args[max(0, len(args)-1):] }

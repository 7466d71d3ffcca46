// Command weir holds pools of machines at their size, applications at their
// count and machines in health. "weir help" lists its commands.
package main

import (
	"context"
	"errors"
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

// shared is what all commands share: streams, the flags of the root, and --output.
type shared struct {
	command.Root
	output string
	args   []string // of the command line
}

// run is the whole program but for the process: it returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cli := &shared{Root: command.Root{Stdin: stdin, Stdout: stdout, Stderr: stderr, Settings: command.Settings{Program: command.Self}}}
	cli.args = args
	err := cli.Run(cli.root(), args)
	if errors.Is(err, autoscalerd.ErrOtherWorld) {
		return bootstrap.ExitRestart
	}
	return command.ExitCode(err)
}

func (cli *shared) root() *cobra.Command {
	root := cli.Command()
	root.Long = `Weirkeeper holds each pool of machines at the right size and the applications
on it at the right count.

To see all of it work on this machine, type "weir up", and in another terminal:
  weir app set web --instances 5 --cpus 0.2 --mem 64 --command 'while :; do date; sleep 5; done'
  weir status
  weir explain`
	pool, health, signals := &poolCommands{cli}, &healthCommands{cli}, &signalCommands{cli}
	daemons, about := &daemonCommands{cli}, &aboutCommands{cli}
	root.AddCommand(
		command.Up(func(context.Context, command.UpOptions) error { return command.ReplaceWithLocal("weir up", cli.args) }),
		(&statusCommands{cli}).statusCommand(), pool.explainCommand(), pool.planCommand(), (&decideCommands{cli}).decideCommand(),
		pool.pauseCommand(), pool.resumeCommand(), pool.offsetCommand(), pool.poolCommand(), (&appCommands{cli}).appCommand(), (&stateCommands{cli}).stateCommand(), signals.signalCommand(),
		(&metricsCommands{cli}).metricsCommand(), daemons.bootstrapCommand(), daemons.autoscalerCommand(), daemons.agentCommand(),
		(&harmonizerCommands{cli}).harmonizerCommand(), health.healthCommand(), about.configCommand(), about.doctorCommand(), about.versionCommand(), daemons.keepCommand(),
	)
	return root
}

// poolArg lets a command name its pool as its argument, as --pool does.
func (cli *shared) poolArg(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return command.OneArg("pool")(cmd, args)
	}
	if len(args) == 1 {
		cli.Pool = args[0]
	}
	return nil
}

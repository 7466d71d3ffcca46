// Command weir scales pools of machines, keeps the configured number of application
// instances running, and repairs unhealthy machines. "weir help" lists its commands.
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
	root.Long = `Weirkeeper scales pools of machines, keeps the configured number of application
	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version, as \"weir version\" does")
instances running, and repairs unhealthy machines.

To try all of it on this machine, run "weir up", and in another terminal:
  weir app set web --instances 5 --cpus 0.2 --mem 64 --command 'while :; do date; sleep 5; done'
  weir status
  weir explain`
	pool, health, signals := &poolCommands{cli}, &healthCommands{cli}, &signalCommands{cli}
	daemons, about := &daemonCommands{cli}, &aboutCommands{cli}
	root.AddCommand(
		command.Up(func(context.Context, command.UpOptions) error { return command.ReplaceWithLocal("weir up", cli.args) }),
		(&statusCommands{cli}).statusCommand(), pool.explainCommand(), pool.planCommand(), (&decideCommands{cli}).decideCommand(),
		pool.pauseCommand(), pool.resumeCommand(), pool.offsetCommand(), pool.poolCommand(), (&appCommands{cli}).appCommand(), (&stateCommands{cli}).stateCommand(), signals.signalCommand(),
		(&metricsCommands{cli}).metricsCommand(), daemons.bootstrapCommand(), daemons.autoscalerCommand(), daemons.agentCommand(), daemons.authCommand(),
		(&harmonizerCommands{cli}).harmonizerCommand(), health.healthCommand(), about.configCommand(), about.doctorCommand(), about.versionCommand(), daemons.keepCommand(),
	)
	return root
}

// poolArg accepts the name of the pool as the only argument, in place of --pool.
func (cli *shared) poolArg(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return command.OneArg("pool")(cmd, args)
	}
	if len(args) == 1 {
		cli.Pool = args[0]
	}
	return nil
}

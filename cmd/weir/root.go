package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
)

// cli is what all commands share: streams, and the flags of the root.
type cli struct {
	command.Root
	output string
}

// run is the whole program but for the process: it returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cli := &cli{Root: command.Root{Stdin: stdin, Stdout: stdout, Stderr: stderr}}
	err := cli.Run(cli.root(), args)
	if errors.Is(err, autoscalerd.ErrOtherWorld) {
		return bootstrap.ExitRestart
	}
	return command.ExitCode(err)
}

func (cli *cli) root() *cobra.Command {
	root := cli.Command()
	root.Long = `Weirkeeper holds each pool of machines at the right size and the applications
on it at the right count.

To see all of it work on this machine, type "weir up", and in another terminal:
  weir app set web --instances 5 --cpus 0.2 --mem 64 --command 'while :; do date; sleep 5; done'
  weir status
  weir explain`
	root.AddCommand(
		cli.upCommand(), cli.statusCommand(), cli.explainCommand(), cli.planCommand(), cli.decideCommand(),
		cli.pauseCommand(), cli.resumeCommand(), cli.offsetCommand(), cli.poolCommand(), cli.appCommand(), cli.signalCommand(),
		cli.metricsCommand(), cli.bootstrapCommand(), cli.autoscalerCommand(), cli.agentCommand(),
		cli.harmonizerCommand(), cli.healthCommand(), cli.configCommand(), cli.versionCommand(), cli.keepCommand(),
	)
	return root
}

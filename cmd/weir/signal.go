package main

import (
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/command"
)

func (cli *cli) signalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "signal",
		Short: "Write, test, publish, run and watch signals",
		Long: `Write, test, publish, run and watch signals: the programs that turn metrics into
requests for resources. docs/signals.md leads from nothing to a signal that is
published and pinned.`,
		Args: command.Group,
		RunE: command.Help,
	}
	cmd.AddCommand(
		cli.signalInitCommand(), cli.signalTestCommand(), cli.signalBenchCommand(), cli.signalRunCommand(),
		cli.signalKeygenCommand(), cli.signalPublishCommand(), cli.signalListCommand(), cli.signalShowCommand(),
		cli.signalVerifyCommand(), cli.signalFetchCommand(), cli.signalYankCommand(),
		cli.signalPsCommand(), cli.signalRestartCommand(), cli.signalLogsCommand(), cli.signalShadowCommand(),
	)
	return cmd
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/command"
)

func (cli *cli) keepCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "keep",
		Short:  "Kill what a dead supervisor left behind (started by weir itself)",
		Hidden: true,
		Args:   command.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return supervise.Keep(cli.Stdin, cli.Stdout) },
	}
}

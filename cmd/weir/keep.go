package main

import (
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// keeperArgv is how this binary is started again as the keeper of a launcher.
func keeperArgv() []string { return []string{selfExe, "keep"} }

// selfExe runs this binary again, also when its file was replaced meanwhile.
const selfExe = "/proc/self/exe"

func (cli *cli) keepCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "keep",
		Short:  "Kill what a dead supervisor left behind (started by weir itself)",
		Hidden: true,
		Args:   noArgs,
		RunE:   func(*cobra.Command, []string) error { return supervise.Keep(cli.stdin, cli.stdout) },
	}
}

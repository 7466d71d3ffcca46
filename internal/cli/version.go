package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

// versionCommands are "weir version".
type versionCommands struct{ *connect.CLI }

// versionText is one line with the version of weir, and the Go version and platform of its build.
func versionText() string {
	return fmt.Sprintf("weir %s %s %s/%s", daemon.BuildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (cli *versionCommands) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of weir, its Go version and its platform",
		Example: `  weir version
  weir version --output json`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{daemon.BuildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
			if cli.Output == "json" {
				return cli.PrintJSON(v)
			}
			fmt.Fprintln(cli.Stdout, versionText())
			return nil
		},
	}
	cli.OutputFlag(cmd)
	return cmd
}

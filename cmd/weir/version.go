package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

// releasedVersion returns the version of this binary, and whether the Go command
// can fetch it: a tag or a commit, without changes to the tree.
func releasedVersion() (version string, ok bool) {
	version = daemon.BuildVersion()
	return version, isReleased(version)
}

// isReleased reports whether a version has no "+dirty" or other build suffix.
func isReleased(version string) bool {
	return semver.IsValid(version) && semver.Build(version) == ""
}

func (cli *cli) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and what it was built with",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{daemon.BuildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
			if cli.output == "json" {
				return cli.printJSON(v)
			}
			fmt.Fprintf(cli.Stdout, "weir %s %s %s/%s\n", v.Version, v.Go, v.OS, v.Arch)
			return nil
		},
	}
	cli.outputFlag(cmd)
	return cmd
}

package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
)

// aboutCommands are "weir config" and "weir version".
type aboutCommands struct{ *shared }

func (cli *aboutCommands) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check configuration files",
		Args:  command.Group,
		RunE:  command.Help,
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "validate",
		Short:   "Check the service file, the harmonizer's and one pool's, and say what is wrong with them",
		Example: `  weir config validate --config-dir ./config --cluster prod --pool default`,
		Args:    command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			service, pool, err := config.Load(cli.ConfigDir(), cli.Cluster, cli.Pool)
			_, warnings, errHarmonizer := config.LoadHarmonizer(cli.ConfigDir())
			if err == nil {
				err = autoscalerd.CheckHealth(pool)
			}
			if err := errors.Join(err, errHarmonizer); err != nil {
				return command.Usage(err)
			}
			for _, w := range append(config.Warnings(service, pool), warnings...) {
				fmt.Fprintf(cli.Stderr, "weir: warning: %v\n", w)
			}
			fmt.Fprintf(cli.Stdout, "%s: pool %s/%s is valid\n", cli.ConfigDir(), cli.Cluster, cli.Pool)
			return nil
		},
	})
	return cmd
}

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

func (cli *aboutCommands) versionCommand() *cobra.Command {
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

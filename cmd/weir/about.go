package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/doctor"
)

// aboutCommands are "weir config", "weir doctor" and "weir version".
type aboutCommands struct{ *shared }

func (cli *aboutCommands) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Check configuration files",
		Example: `  weir config validate`,
		Args:    command.Group,
		RunE:    command.Help,
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "validate [POOL]",
		Short:   "Check weir.yaml, the harmonizer's file and one pool's file, and list every mistake",
		Example: `  weir config validate default --config-dir ./config --cluster prod`,
		Args:    cli.poolArg,
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

func (cli *aboutCommands) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [POOL]",
		Short: "Check what a pool needs, and print what to do about each failure",
		Long: `Check what a pool needs, in this order: its files, its bootstrap, whether each signal
runs as a user of its own, whether the resource limits of the signals are enforced,
and whether other users can read files with keys. Each failure is printed with what
to do. The exit code is 1 if a check failed.

Run it on the host where bootstrap runs, as the same user.`,
		Example: `  weir doctor default --cluster everywhere-prod`,
		Args:    cli.poolArg,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cli.doctor(cmd.Context()) },
	}
	cli.outputFlag(cmd)
	return cmd
}

func (cli *aboutCommands) doctor(ctx context.Context) error {
	site := doctor.Site{Configs: cli.ConfigDir()}
	if dir, err := cli.DataDir(); err == nil && cli.Configs == "" {
		if up := command.UpConfigs(dir); isFolder(up) {
			site.Configs = up // "weir up" reads no other files
		}
	}
	site.Service, _, site.Files = config.Load(site.Configs, cli.Cluster, cli.Pool)
	site.Silent = cli.withBus(ctx, func(ctx context.Context, b *bus.Bus) error {
		status, err := cli.askBootstrap(ctx, b)
		if err == nil {
			site.Status = &status
		}
		return err
	})
	all := doctor.Examine(site)
	if cli.output == "json" {
		if err := cli.printJSON(all); err != nil {
			return err
		}
	} else {
		for _, f := range all {
			command.Paint(cli.Stdout, styleOfResult(f.Result), fmt.Sprintf("%-7s", f.Result))
			fmt.Fprintf(cli.Stdout, "  %s: %s\n", f.Check, f.Detail)
			if f.Fix != "" {
				fmt.Fprintf(cli.Stdout, "         %s\n", f.Fix)
			}
		}
	}
	if !doctor.Healthy(all) {
		return errors.New("a check failed")
	}
	return nil
}

// styleOfResult returns the colour of the result of a check.
func styleOfResult(r doctor.Result) command.Style {
	switch r {
	case doctor.OK:
		return command.Good
	case doctor.Failed:
		return command.Bad
	}
	return command.Warn
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
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

// versionText is one line with the version of weir, and the Go version and platform of its build.
func versionText() string {
	return fmt.Sprintf("weir %s %s %s/%s", daemon.BuildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (cli *aboutCommands) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of weir, and the Go version and platform of its build",
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
			if cli.output == "json" {
				return cli.printJSON(v)
			}
			fmt.Fprintln(cli.Stdout, versionText())
			return nil
		},
	}
	cli.outputFlag(cmd)
	return cmd
}

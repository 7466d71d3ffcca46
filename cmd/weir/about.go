package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/doctor"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/agentd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/authd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// aboutCommands are "weir config", "weir doctor" and "weir version".
type aboutCommands struct{ *shared }

func (cli *aboutCommands) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Check and show configuration files",
		Example: `  weir config validate`,
		Args:    command.Group,
		RunE:    command.Help,
	}
	cmd.AddCommand(cli.configShowCommand(), cli.configSchemaCommand())
	cmd.AddCommand(&cobra.Command{
		Use:     "validate [POOL]",
		Short:   "Check weir.yaml, the harmonizer's file and one pool's file, and list every mistake",
		Example: `  weir config validate default --config-dir ./config --cluster prod`,
		Args:    cli.poolArg,
		RunE: func(*cobra.Command, []string) error {
			service, pool, err := config.Load(cli.ConfigDir(), cli.Cluster, cli.Pool, autoscalerd.CheckHealth)
			_, warnings, errHarmonizer := config.LoadHarmonizer(cli.ConfigDir())
			if err := errors.Join(err, errHarmonizer); err != nil {
				return usage.New(err)
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

func (cli *aboutCommands) configShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [POOL]",
		Short: "Print the files of a pool with the values that apply",
		Long: `Print weir.yaml, the pool's file and harmonizer.yaml as they are decoded: with defaults.
The block autoscaling of the pool has the values that apply to the pool, also those of
weir.yaml. Passwords are hidden, also in URLs and in parameters. Files with secrets are
not read. Ignored keys are left out.`,
		Example: `  weir config show default --cluster everywhere-prod
  weir config show --output json`,
		Args: cli.poolArg,
		RunE: func(*cobra.Command, []string) error {
			service, pool, err := config.Load(cli.ConfigDir(), cli.Cluster, cli.Pool)
			harmonizer, _, errHarmonizer := config.LoadHarmonizer(cli.ConfigDir())
			if err := errors.Join(err, errHarmonizer); err != nil {
				return usage.New(err)
			}
			files := config.Show(service, pool, harmonizer)
			if cli.form == command.FormJSON {
				return cli.printJSON(files)
			}
			for _, f := range files {
				fmt.Fprintf(cli.Stdout, "---\n# %s\n", terminal.OneLine(f.Title()))
				if err := cli.printJSON(f.Content); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cli.formFlag(cmd, command.FormYAML, command.FormJSON)
	return cmd
}

func (cli *aboutCommands) configSchemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema [FILE]",
		Short: "Print a JSON Schema of the configuration files",
		Long: `Print a JSON Schema of a file: service (weir.yaml), pool or harmonizer. Without FILE, the
schema has all three below $defs. Editors complete and check keys with it. It has keys,
types and forms of values. "weir config validate" checks more, such as bounds that depend
on other keys.`,
		Example: `  weir config schema > weir.schema.json
  weir config schema pool > pool.schema.json`,
		ValidArgs: config.SchemaFiles(),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.OneArg("file: service, pool or harmonizer")(cmd, args)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			schema, err := config.Schema(strings.Join(args, ""))
			if err != nil {
				return usage.New(err)
			}
			return cli.printJSON(schema)
		},
	}
	cli.formFlag(cmd, command.FormJSON, command.FormYAML)
	return cmd
}

func (cli *aboutCommands) doctorCommand() *cobra.Command {
	var fix bool
	cmd := &cobra.Command{
		Use:   "doctor [POOL]",
		Short: "Check what a pool needs, and print what to do about each failure",
		Long: `Check what a pool needs, in this order: the installed package; the pool's files; each
NATS server of the list; how long certificates and credentials last; what the
credentials may do; replicas, leader and lag of each stream and bucket; the clocks of
the servers; the bucket of releases and its trusted keys; the metrics store; the rights
at the provider; the agents; placer and harmonizer; bootstrap; whether each signal runs
as a user of its own with resource limits; and whether other users can read files with
keys. Each failure is printed with what to do. The exit code is 1 if a check failed.

The command changes nothing without --fix. --fix creates missing streams and buckets
and raises the number of replicas. It needs credentials of role admin.

Each check ends after --timeout. Run the command on the host where bootstrap runs, as
the same user. The servers log the acts that they reject for the user.`,
		Example: `  weir doctor default --cluster everywhere-prod
  weir doctor default --cluster everywhere-prod --config-dir ./admin --fix`,
		Args: cli.poolArg,
		RunE: func(cmd *cobra.Command, _ []string) error { return cli.doctor(cmd.Context(), fix) },
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "create missing streams and buckets, and raise the number of replicas")
	cli.outputFlag(cmd)
	return cmd
}

func (cli *aboutCommands) doctor(ctx context.Context, fix bool) error {
	site, err := cli.doctorSite(ctx, fix)
	if err != nil {
		return err
	}
	printing := doctorPrinter{out: cli.Stdout, screen: terminal.Of(cli.Stderr)}
	if cli.output == "json" {
		printing.out = io.Discard
	}
	doctor.Examine(ctx, site, printing.found, printing.progress)
	printing.clear()
	if cli.output == "json" {
		if err := cli.printJSON(printing.all); err != nil {
			return err
		}
	}
	if !doctor.Healthy(printing.all) {
		return errors.New("a check failed")
	}
	return nil
}

// doctorSite returns what doctor checks.
func (cli *aboutCommands) doctorSite(ctx context.Context, fix bool) (doctor.Site, error) {
	site := doctor.Site{Configs: cli.ConfigDir(), Timeout: cli.Timeout}
	site.Program, _ = os.Executable() // without a path the package is not checked
	if dir, err := cli.DataDir(); err == nil && cli.Configs == "" {
		if up := daemon.UpConfigs(dir); isFolder(up) {
			site.Configs = up                          // "weir up" reads no other files
			site.Keys, _ = signalbucket.LocalKeys(dir) // without them, the bucket refuses
		}
	}
	site.Service, site.Pool, site.Files = config.Load(site.Configs, cli.Cluster, cli.Pool)
	connection, err := cli.connection("weir doctor")
	if err != nil {
		if site.Files == nil {
			return site, err
		}
		site.Silent = err // the finding of the files has the cause
		return site, nil
	}
	connection.Log = slog.New(slog.DiscardHandler) // a finding has each error
	site.Bus = &doctor.Bus{
		Config: connection, Cluster: cli.Cluster, Pool: cli.Pool, Timeout: cli.Timeout, Fix: fix,
		Ledger: autoscalerd.LedgerConfig(site.Pool, 0),
	}
	cli.asMachine(ctx, site.Service, site.Bus)
	return site, nil
}

// asMachine makes doctor connect as the agent of this machine does, if weir.yaml has a section "identity" or "agent".
func (cli *aboutCommands) asMachine(ctx context.Context, service config.Service, b *doctor.Bus) {
	kind, proves := service.Identity.Kind()
	if len(b.Config.NATS.Servers) == 0 || !proves && service.Agent == (agent.Settings{}) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cli.Timeout)
	defer cancel()
	place := agentd.Place{Block: service.Agent, File: filepath.Join(cli.ConfigDir(), "weir.yaml"), Getenv: os.Getenv, Log: b.Config.Log}
	machine, err := place.Name(ctx, agent.Config{})
	if err == nil {
		b.Cluster, b.Pool, b.Node = machine.Cluster, machine.Pool, machine.ID
	}
	if err == nil && proves {
		err = hasNodeKey(b.Config.Data, machine.ID)
	}
	if err == nil {
		err = authd.Identify(ctx, &b.Config, service.Identity, identity.Claim{Cluster: machine.Cluster, Pool: machine.Pool, Node: machine.ID})
	}
	if err != nil && proves { // each server then has a finding with the error
		b.Config.Identity = "identity." + kind.Key
		b.Config.Login = func(*nats.Options) error { return fmt.Errorf("prove identity of this machine: %w", err) }
	}
}

// hasNodeKey returns an error if the agent of this machine has no key in the data folder. A new key would be another identity.
func hasNodeKey(data, node string) error {
	path := identity.KeyFile(data, node)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("find the agent's nkey: %w; start the agent, which creates it, or name its data folder with --data", err)
	}
	return nil
}

// doctorPrinter prints findings as they are found, and the running check on a terminal.
type doctorPrinter struct {
	out    io.Writer
	screen *os.File // nil: no terminal
	all    []doctor.Finding
}

func (p *doctorPrinter) found(f doctor.Finding) {
	p.clear()
	p.all = append(p.all, f)
	terminal.Paint(p.out, styleOfResult(f.Result), fmt.Sprintf("%-7s", f.Result))
	fmt.Fprintf(p.out, "  %s: %s\n", f.Check, strings.ReplaceAll(f.Detail, "\n", "; "))
	if f.Fix != "" {
		fmt.Fprintf(p.out, "         %s\n", f.Fix)
	}
}

func (p *doctorPrinter) progress(check string) {
	if p.screen != nil {
		fmt.Fprintf(p.screen, "\r\x1b[Kchecking %s ...", check)
	}
}

// clear removes the line of the running check.
func (p *doctorPrinter) clear() {
	if p.screen != nil {
		fmt.Fprint(p.screen, "\r\x1b[K")
	}
}

// styleOfResult returns the colour of the result of a check.
func styleOfResult(r doctor.Result) terminal.Style {
	switch r {
	case doctor.OK, doctor.Fixed:
		return terminal.Good
	case doctor.Failed:
		return terminal.Bad
	}
	return terminal.Warn
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

// contextCommands are the commands about the contexts of a user.
type contextCommands struct{ *shared }

func (cli *contextCommands) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "List and choose contexts: named settings of commands",
		Long: `List and choose contexts. A context has the settings of commands for one cluster. They are
in the file weir/config.yaml below $XDG_CONFIG_HOME, or below ~/.config:

  current: prod
  contexts:
    prod: {config_dir: /home/me/prod, cluster: everywhere-prod, pool: web}
    lab: {nats: "nats://lab:4222", cluster: lab}

The keys are config_dir, data, nats, cluster and pool. A context gives only what neither a
flag, nor the environment, nor an argument gives. --context or WEIR_CONTEXT chooses
another context for one command. Daemons ignore contexts.`,
		Args: command.Group,
		RunE: command.Help,
	}
	cmd.AddCommand(cli.contextListCommand(), cli.contextUseCommand(), cli.contextShowCommand())
	for _, c := range cmd.Commands() { // they also run while the current context is missing
		command.IgnoreContext(c)
	}
	return cmd
}

// contextRow is a context in a list.
type contextRow struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	command.Context
}

func (cli *contextCommands) contextListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the contexts of this user",
		Example: `  weir context list
  weir context list --output name`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error { return cli.listContexts() },
	}
	cli.namesFlag(cmd, eachName(func(r contextRow) string { return r.Name }))
	return cmd
}

func (cli *contextCommands) listContexts() error {
	contexts, err := command.LoadContexts()
	if err != nil {
		return err
	}
	current, _, _ := contexts.Choose(cli.Context) // a missing one is the current one of no row
	rows, table := []contextRow{}, [][]string{}
	for _, name := range sortedKeys(contexts.All) {
		c := contexts.All[name]
		c.NATS = shownServers(c.NATS)
		rows = append(rows, contextRow{name, name == current, c})
		mark := ""
		if name == current {
			mark = "*"
		}
		table = append(table, []string{mark, name, orDash(c.Cluster), orDash(c.Pool), orDash(c.ConfigDir), orDash(c.NATS), orDash(c.Data)})
	}
	if cli.output == command.FormJSON {
		return cli.printJSON(rows)
	}
	cli.printTable([]string{"current", "name", "cluster", "pool", "config dir", "nats", "data"}, table)
	return nil
}

// shownServers returns the URLs without secrets.
func shownServers(list string) string { return bus.NATS{Servers: bus.Split(list)}.Show() }

func (cli *contextCommands) contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "use CONTEXT",
		Short:   "Make a context the current one",
		Example: `  weir context use prod`,
		Args:    command.OneArg("context"),
		RunE: func(_ *cobra.Command, args []string) error {
			contexts, err := command.LoadContexts()
			if err == nil {
				err = contexts.Use(args[0])
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cli.Stdout, "%s is the current context\n", args[0])
			return nil
		},
	}
}

func (cli *contextCommands) contextShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show [CONTEXT]",
		Short: "Show the settings of commands, and which place gives each",
		Long: `Show the settings of commands, and which place gives each: a flag, a variable of the
environment, or a context. "-" is a default. Without an argument, the context is the one that
a command would use.`,
		Example: `  weir context show
  weir context show prod --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.OneArg("context")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				cli.Context = args[0]
			}
			all, err := cli.FillFromContext(cmd)
			if err != nil {
				return err
			}
			var table [][]string
			for i, f := range all {
				if f.Key == "nats" {
					all[i].Value = shownServers(f.Value)
				}
				table = append(table, []string{f.Key, orDash(all[i].Value), orDash(f.From)})
			}
			if cli.output == command.FormJSON {
				return cli.printJSON(all)
			}
			cli.printTable([]string{"setting", "value", "from"}, table)
			return nil
		},
	}
	cli.outputFlag(cmd)
	return cmd
}

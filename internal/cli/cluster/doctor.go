package cluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/cli/doctor"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/agentd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/authd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// doctorCommands are "weir doctor".
type doctorCommands struct{ *connect.CLI }

func (cli *doctorCommands) doctorCommand() *cobra.Command {
	var fix bool
	cmd := &cobra.Command{
		Use:   "doctor [POOL]",
		Short: "Check what a pool needs, and print what to do about each failure",
		Long: `Check what a pool needs, in this order: the installed package; the pool's files; each
NATS server of the list; how long certificates and credentials last; what the
credentials may do; replicas, leader and lag of each stream and bucket; the clocks of
the servers; the bucket of releases and its trusted keys; the metrics store; the rights
at the provider; the agents; placer and harmonizer; stored records of nodes, groups and
apps that are gone; bootstrap; whether each signal runs as a user of its own with
resource limits; and whether other users can read files with keys. Each failure is
printed with what to do. What "weir up" of an ordinary user cannot have is a note, and so
is a missing file of the pool on a host with weir.yaml: only bootstrap needs it. A file
that this user may not read is unknown. The exit code is 1 if a check failed, so
something is to be done, and 2 if the cluster has no such pool.

The command changes nothing without --fix. --fix creates missing streams and buckets,
raises the number of replicas, and deletes left-over records. It needs credentials of
role admin.

Each check ends after --timeout. Run the command on the host where bootstrap runs, as
the same user. The servers log the acts that they reject for the user.`,
		Example: `  weir doctor default --cluster everywhere-prod
  weir doctor default --cluster everywhere-prod --config-dir ./admin --fix`,
		Args: cli.PoolArg,
		RunE: func(cmd *cobra.Command, _ []string) error { return cli.doctor(cmd.Context(), fix) },
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "create missing streams and buckets, raise the number of replicas, and delete left-over records")
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *doctorCommands) doctor(ctx context.Context, fix bool) error {
	site, err := cli.doctorSite(ctx, fix)
	if err != nil {
		return err
	}
	printing := doctorPrinter{out: cli.Stdout, screen: terminal.Of(cli.Stderr)}
	if cli.Output == "json" {
		printing.out = io.Discard
	}
	doctor.Examine(ctx, site, printing.found, printing.progress)
	printing.clear()
	if cli.Output == "json" {
		if err := cli.PrintJSON(printing.all); err != nil {
			return err
		}
	}
	switch {
	case slices.ContainsFunc(printing.all, func(f doctor.Finding) bool { return f.Check == doctor.PoolCheck && f.Result == doctor.Failed }):
		return command.WithCode(command.ExitUsage, failedChecks(printing.all))
	case !doctor.Healthy(printing.all):
		return failedChecks(printing.all)
	}
	return nil
}

// failedChecks returns the error of findings if some failed: "22 ok, 1 unknown, 2 failed: signal limits".
func failedChecks(all []doctor.Finding) error {
	var failed, parts []string
	count := map[doctor.Result]int{}
	for _, f := range all {
		count[f.Result]++
		if f.Result == doctor.Failed && !slices.Contains(failed, f.Check) {
			failed = append(failed, f.Check)
		}
	}
	for _, r := range []doctor.Result{doctor.OK, doctor.Warned, doctor.Unknown, doctor.Failed} {
		if count[r] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[r], r))
		}
	}
	return fmt.Errorf("%s: %s", strings.Join(parts, ", "), strings.Join(failed, ", "))
}

// doctorSite returns what doctor checks.
func (cli *doctorCommands) doctorSite(ctx context.Context, fix bool) (doctor.Site, error) {
	site := doctor.Site{Timeout: cli.Timeout}
	site.Program, _ = os.Executable() // without a path the package is not checked
	var up string
	if site.Configs, up = cli.RunningConfigs(); up != "" {
		site.Ordinary = os.Geteuid() != 0
		site.Keys, _ = signalbucket.LocalKeys(up) // without them, the bucket refuses
	}
	pools, _ := config.Pools(site.Configs, cli.Cluster)
	site.Lacks = len(pools) > 0 && !slices.Contains(pools, cli.Pool)
	if site.Absent = len(pools) == 0; site.Absent {
		site.Service, site.Files = config.LoadService(site.Configs)
	} else {
		site.Service, site.Pool, site.Files = config.Load(site.Configs, cli.Cluster, cli.Pool)
	}
	connection, err := cli.Connection("weir doctor")
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
		Bounds: site.Pool.Streams(), Files: pools,
	}
	if site.Lacks {
		site.Bus.NewFile = filepath.Join(site.Configs, config.FileOf(cli.Cluster, cli.Pool))
	}
	cli.asMachine(ctx, site.Service, site.Bus)
	_, noService := os.Stat(filepath.Join(site.Configs, "weir.yaml"))
	site.Plain = site.Absent && noService != nil && len(connection.NATS.Servers) == 0
	if site.Absent && !site.Plain && !cli.Named && site.Bus.Node == "" {
		return site, usage.New(fmt.Errorf("check the pool %s/%s: %s has no file of a pool, and no pool is named; type \"weir doctor POOL --cluster CLUSTER\"", cli.Cluster, cli.Pool, site.Configs))
	}
	return site, nil
}

// asMachine makes doctor connect as the agent of this machine does, if weir.yaml has a section "identity" or "agent".
func (cli *doctorCommands) asMachine(ctx context.Context, service config.Service, b *doctor.Bus) {
	kind, proves := service.Identity.Kind()
	if len(b.Config.NATS.Servers) == 0 || !proves && !service.Agent.Given() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cli.Timeout)
	defer cancel()
	place := agentd.Place{Block: service.Agent, File: filepath.Join(cli.ConfigDir(), "weir.yaml"), Getenv: os.Getenv, Log: b.Config.Log}
	machine, err := place.Name(ctx)
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

// longestFinding bounds the columns of a line of a finding after its result, as those of a problem.
const longestFinding = 95

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
	const below = "\n         " // the columns of the result
	columns := terminal.Width(p.out)
	if columns > 0 {
		columns = min(columns, longestFinding)
	}
	lines := terminal.ProblemLines(f.Check+": "+f.Detail, columns)
	if f.Fix != "" {
		lines = append(lines, terminal.ProblemLines(f.Fix, columns)...)
	}
	fmt.Fprintf(p.out, "  %s\n", strings.Join(lines, below))
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
	case doctor.OK, doctor.Fixed, doctor.Note:
		return terminal.Good
	case doctor.Failed:
		return terminal.Bad
	}
	return terminal.Warn
}

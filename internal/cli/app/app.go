// Package app has the commands of "weir app".
//
// They write and read the rows of applications in the bucket of the cluster, and announce each change to the
// harmonizer. The state of instances is what the harmonizer answers. Their output comes from the agents. [Command]
// returns the commands. One goroutine uses them.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/harmonizer/natsbus"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// commands are the commands of "weir app".
type commands struct{ *connect.CLI }

// Command returns "weir app" with its subcommands.
func Command(c *connect.CLI) *cobra.Command {
	cli := &commands{c}
	cmd := &cobra.Command{
		Use:     "app",
		Aliases: []string{"apps"},
		Short:   "Set, list and watch applications",
		Example: `  weir app set web --instances 2 --command ./serve
  weir app status`,
		Args: command.Group,
		RunE: command.Help,
	}
	cmd.AddCommand(cli.setCommand(), files{cli}.applyCommand(), files{cli}.diffCommand(), cli.getCommand(), cli.listCommand(), cli.deleteCommand(),
		cli.statusCommand(), cli.explainCommand(), cli.crashesCommand(), cli.retryCommand(), cli.logsCommand())
	cmd.AddCommand(verbs{cli}.all()...)
	return cmd
}

func (cli *commands) setCommand() *cobra.Command {
	var want api.App
	var flags versionFlags
	var checks checks
	wait := false
	cmd := &cobra.Command{
		Use:     "set NAME",
		Aliases: []string{"create", "add", "update"},
		Short:   "Create or change an application: its instances, resources and command",
		Long: `Create or change an application: its instances, resources and command.

A flag that is not set keeps its value. A new application needs --command. A change of
the command, the release, the resources, the environment, the ports or the readiness
makes a new version. Its instances replace the old ones, some indices at a time: an old instance ends
when the new one on its index is ready. If a new instance crashes or is not ready in time,
the update halts, and the old version serves. --wait shows the update until all instances
are ready (exit code 0) or it halts (1). A change of the count keeps the version.

With --port http=8080, an instance needs this port of its machine, so each machine runs
one such instance. With --port http=auto, the machine chooses a free port. The command
finds the first port in $PORT, and each one in $PORT_ and its name: $PORT_HTTP. --ready-http
and --ready-tcp may name a port.

With --one-shot, the command ends: an instance that exits with 0 is done, needs no
resources, and is not started again in this version. After another exit it is started
again, at most --retries times. --wait then waits until all instances are done.

A new instance goes to the machine with the fewest instances of the application, in the
zone with the fewest. With --spread zone, the zone counts first. With --at-most-per-node,
further instances wait for another machine. Neither makes a new version.

With --release, each machine fetches and verifies that release from the bucket before it
runs the command, which finds the files in the folder $WEIR_RELEASE_DIR.

If no machine of the pool can hold an instance, the command warns; with --strict it
writes nothing and ends with exit code 1. A machine that a group can add counts too.
Without a warning, a machine can hold it, or the machines of the pool are unknown:
--strict reports that, and the instance is written.

An instance of 0 cpus, and more instances than the pool can hold at its maximum, are
written only with --yes. If it is unknown what the pool can hold, the command warns, and
writes.`,
		Example: `  weir app set web --instances 5 --cpus 0.2 --mem 64 --command 'while :; do date; sleep 5; done'
  weir app set web --release shop/web@v1.2.0 --command 'exec $WEIR_RELEASE_DIR/web'
  weir app set web --instances 20
  weir app set web --ready-http 8080/health --env LEVEL=debug --wait
  weir app set web --port http=auto --ready-http http/health
  weir app set report --one-shot --retries 5 --command './report' --wait
  weir app set web --cpus 4 --strict
  weir app set web --instances 5000 --yes`,
		Args: command.OneArg("application name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			want.Name = args[0]
			if !names.Valid(want.Name) {
				return badAppName(want.Name)
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				var row api.App
				err := onNewestRow(ctx, func() (err error) {
					row, err = cli.setApp(ctx, b, want, &flags, checks, cmd.Flags().Changed)
					return err
				})
				if err != nil || !wait {
					return err
				}
				return waitReady(cmd.Context(), b, cli, row)
			})
		},
	}
	f := cmd.Flags()
	f.IntVarP(&want.Instances, "instances", "n", 1, "number of instances that should run")
	instances := f.Lookup("instances")
	instances.Value = newNumber{instances.Value}
	f.Float64Var(&want.CPUs, "cpus", defaultCPUs, "cores of one instance")
	f.Float64Var(&want.Mem, "mem", defaultMem, "MB of memory of one instance")
	f.Float64Var(&want.Disk, "disk", 0, "MB of disk of one instance; a machine with a full disk ends what uses more")
	f.Float64Var(&want.GPUs, "gpus", 0, "GPUs of one instance")
	f.StringVar(&want.Command, "command", "", "command of an instance, run by /bin/sh -c")
	f.StringVar(&want.Release, "release", "", "NAMESPACE/NAME@VERSION in the bucket, whose files the command finds in $WEIR_RELEASE_DIR; empty: none")
	f.BoolVar(&checks.strict, "strict", false, "write nothing if no machine of the pool can hold an instance")
	checks.bind(cmd)
	f.BoolVar(&wait, "wait", false, "show the update until all instances are ready, or have ended if it is stopped, or it halts")
	flags.bind(f)
	return cmd
}

// checks are which changes a command writes.
type checks struct {
	strict bool // only what a machine may hold
	yes    bool // also a probable mistake
}

// bind adds --yes.
func (c *checks) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.yes, "yes", false, "also write 0 cpus, and more instances than the pool can hold at its maximum")
}

// setApp writes a row; flags that are not changed keep an old row's value.
func (cli *commands) setApp(ctx context.Context, b *bus.Bus, want api.App, flags *versionFlags, c checks, changed func(string) bool) (api.App, error) {
	if err := checkBucket(ctx, b, cli.Cluster); err != nil {
		return want, err
	}
	old, revision, err := readApp(ctx, b, cli.Cluster, want.Name)
	switch {
	case errors.Is(err, errNoApp) && want.Command == "":
		return want, usage.New(fmt.Errorf("application %s is new: set its command with --command", want.Name))
	case errors.Is(err, errNoApp), errors.Is(err, errUnreadable) && revision > 0 && changed("command") && changed("instances"):
		want.Pool = cli.Pool
	case err != nil:
		return want, err
	default:
		want = merge(old, want, changed)
		if changed("pool") {
			want.Pool = cli.Pool
		}
	}
	if err := flags.apply(&want, changed); err != nil {
		return want, err
	}
	want = withVersion(old, want, time.Now())
	return want, cli.write(ctx, b, old, want, revision, c)
}

// write writes a row in place of the old one, and warns if no machine can hold an instance.
func (cli *commands) write(ctx context.Context, b *bus.Bus, old, want api.App, revision uint64, c checks) error {
	if err := message.ValidateApp(want); err != nil {
		return usage.New(fmt.Errorf("app %s: %w", want.Name, err))
	}
	pools := readPools(ctx, b, cli)
	if why := pools.refuses(want); why != "" {
		return fmt.Errorf("application %s is not written: %s", want.Name, why)
	}
	never := pools.whyNever(want)
	if c.strict && never != "" {
		return fmt.Errorf("application %s is not written: %s", want.Name, never)
	}
	if why := pools.absurd(old, want); why != "" {
		if err := command.Confirm(c.yes, why); err != nil {
			return err
		}
	}
	if err := writeApp(ctx, b, cli.Cluster, want, revision); err != nil {
		return err
	}
	fmt.Fprintf(cli.Stdout, "%s: %s\n", want.Name, instancesLine(want))
	pools.warn(want, c.strict)
	return nil
}

func merge(old, want api.App, changed func(string) bool) api.App {
	out := old
	for flag, set := range map[string]func(){
		"instances": func() { out.Instances = want.Instances },
		"cpus":      func() { out.CPUs = want.CPUs },
		"mem":       func() { out.Mem = want.Mem },
		"disk":      func() { out.Disk = want.Disk },
		"gpus":      func() { out.GPUs = want.GPUs },
		"command":   func() { out.Command = want.Command },
		"release":   func() { out.Release = want.Release },
	} {
		if changed(flag) {
			set()
		}
	}
	return out
}

func (cli *commands) getCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Print the expected state of an application",
		Example: `  weir app get web
  weir app get web --output json`,
		Args: command.OneArg("application name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.onApp(cmd.Context(), args[0], func(_ context.Context, _ *bus.Bus, row api.App, _ uint64) error {
				if cli.Output == "json" {
					return cli.PrintJSON(row)
				}
				cli.printApps([]api.App{row}, nil)
				return nil
			})
		},
	}
	cli.NamesFlag(cmd, func(v any) []string { return []string{v.(api.App).Name} })
	return cmd
}

func (cli *commands) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the applications of the cluster",
		Example: `  weir app list
  weir app list --output name
  weir app list --output json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				rows, bad, err := listApps(ctx, b, cli.Cluster)
				if err != nil {
					return err
				}
				if cli.Output == "json" {
					if err := cli.PrintJSON(rows); err != nil {
						return err
					}
				} else {
					cli.warnOfWaiting(ctx, b, rows)
					cli.printApps(rows, cli.workOf(ctx, b, rows))
				}
				return errors.Join(bad...)
			})
		},
	}
	cli.WatchFlag(cmd)
	cli.NamesFlag(cmd, command.EachName(func(a api.App) string { return a.Name }))
	return cmd
}

// warnOfWaiting prints which updates are halted, and for each application why instances wait.
func (cli *commands) warnOfWaiting(ctx context.Context, b *bus.Bus, rows []api.App) {
	// Without a response, the halted updates are unknown. "weir app status" reports that.
	if s, err := view.Harmonizer(ctx, b, cli.Cluster, api.HarmonizerQuery{Totals: true}); err == nil {
		for _, line := range view.HaltedLines(s, "") {
			cli.warnFirst([]string{line})
		}
	}
	var pools []string
	for _, r := range rows {
		pools = append(pools, r.Pool)
	}
	waits := cli.pendingOf(ctx, b, pools)
	for _, r := range rows {
		cli.warnFirst(waits[r.Name])
	}
}

// workOf requests how far the work of the applications is that end. Without a response it is unknown.
func (cli *commands) workOf(ctx context.Context, b *bus.Bus, rows []api.App) map[string]string {
	if !slices.ContainsFunc(rows, func(r api.App) bool { return r.OneShot }) {
		return nil
	}
	s, err := view.Harmonizer(ctx, b, cli.Cluster, api.HarmonizerQuery{})
	if err != nil {
		return nil
	}
	work := map[string]string{}
	for _, one := range s.Apps {
		if one.OneShot {
			work[one.Name] = view.WorkOf(one.Count)
		}
	}
	return work
}

// printApps prints rows; work has how far those are that end.
func (cli *commands) printApps(rows []api.App, work map[string]string) {
	if len(rows) == 0 {
		fmt.Fprintln(cli.Stdout, command.NoApps)
		return
	}
	var out [][]string
	for _, r := range rows {
		instances := cmp.Or(work[r.Name], fmt.Sprint(r.Instances))
		if r.State == api.AppStopped {
			instances += ", stopped"
		}
		out = append(out, []string{r.Name, r.Pool, instances, explain.Quantity(r.CPUs),
			explain.Quantity(r.Mem), explain.Quantity(r.Disk), r.Version, r.Command})
	}
	cli.PrintTable([]string{"name", "pool", "instances", "cpus", "mem MB", "disk MB", "version", "command"}, out)
}

func (cli *commands) deleteCommand() *cobra.Command {
	damaged := false
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Aliases: []string{"rm", "remove"},
		Short:   "Delete an application and stop its instances",
		Long: `Delete an application and stop its instances, also if its row is lost and instances run.
If the store cannot read the row of the application, its bucket is written again without the row. Only the role admin may do
that: use its key in weir.yaml, and --damaged. With the bus of a data folder the flag is
not needed.`,
		Example: `  weir app delete web
  weir app delete web --damaged --config-dir /root/weir-admin`,
		Args: command.OneArg("application name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), cli.Timeout)
			defer cancel()
			c, err := cli.Connection("weir command")
			if err != nil {
				return err
			}
			if damaged {
				c.User.Role = roles.Admin
			}
			return cli.On(ctx, c, func(ctx context.Context, b *bus.Bus) error {
				if err := checkBucket(ctx, b, cli.Cluster); err != nil {
					return err
				}
				if err := onNewestRow(ctx, func() error { return cli.remove(ctx, b, args[0]) }); err != nil {
					return err
				}
				fmt.Fprintf(cli.Stdout, "%s: deleted\n", args[0])
				return announceApp(b.Conn(), args[0])
			})
		},
	}
	cmd.Flags().BoolVar(&damaged, "damaged", false, "connect as the role admin, which may delete a row that the store cannot read")
	return cmd
}

// remove reads the row of an application and deletes it.
func (cli *commands) remove(ctx context.Context, b *bus.Bus, name string) error {
	_, revision, err := readApp(ctx, b, cli.Cluster, name)
	switch {
	case errors.Is(err, errNoApp) && cli.hasInstances(ctx, b, name):
		err = markDeleted(ctx, b, cli.Cluster, name)
	case err == nil || errors.Is(err, errUnreadable):
		err = cli.deleteApp(ctx, b, name, revision)
	default:
		return err
	}
	if err != nil {
		return fmt.Errorf("delete application %s: %w", name, err)
	}
	return nil
}

// hasInstances reports whether the harmonizer lists instances of an application without a row.
func (cli *commands) hasInstances(ctx context.Context, b *bus.Bus, name string) bool {
	s, err := requestHarmonizer(ctx, b, cli.Cluster, api.HarmonizerQuery{App: name})
	return err == nil && s.App != nil && len(s.App.Indices) > 0
}

// markDeleted marks an application without a row as deleted.
func markDeleted(ctx context.Context, b *bus.Bus, cluster, name string) error {
	_, err := kvbucket.New(b.JetStream(), message.AppsBucket(cluster)).Delete(ctx, name, 0)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return changedError{name}
	}
	return err
}

// rewriteTimeout bounds the rewrite of the bucket without a damaged row. It is long: until
// the rewrite ends, the applications are unknown.
const rewriteTimeout = 2 * time.Minute

// deleteApp deletes a row of that revision; 0 is that of a row that the store cannot read.
func (cli *commands) deleteApp(ctx context.Context, b *bus.Bus, name string, revision uint64) error {
	if revision > 0 {
		return eraseApp(ctx, b, cli.Cluster, name, revision)
	}
	fmt.Fprintf(cli.Stderr, "weir: the store cannot read the row of %s: the bucket is written again without it\n", name)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rewriteTimeout)
	defer cancel()
	drop := func(ctx context.Context, b *bus.Bus) error {
		return natsbus.DropDamaged(ctx, b.JetStream(), cli.Cluster, b.Replicas(), name)
	}
	c, err := cli.Connection("weir command")
	if err == nil && len(c.NATS.Servers) == 0 {
		c.User.Role = roles.Admin
		return cli.On(ctx, c, drop)
	}
	err = errors.Join(err, drop(ctx, b))
	if errors.Is(err, nats.ErrPermissionViolation) {
		err = fmt.Errorf("only the role admin may write the bucket again: repeat the command with --damaged, --config-dir, and a weir.yaml with nats.nkey_file %s.admin.nk: %w", cli.Cluster, err)
	}
	return err
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/harmonizer/natsbus"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// appCommands are the commands of "weir app".
type appCommands struct{ *connect.CLI }

func (cli *appCommands) appCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "app",
		Short: "Set, list and watch applications",
		Example: `  weir app set web --instances 2 --command ./serve
  weir app status`,
		Args: command.Group,
		RunE: command.Help,
	}
	cmd.AddCommand(cli.setCommand(), cli.getCommand(), cli.listCommand(), cli.deleteCommand(),
		cli.statusCommand(), cli.explainCommand(), cli.crashesCommand(), cli.retryCommand(), cli.logsCommand())
	return cmd
}

func (cli *appCommands) setCommand() *cobra.Command {
	var want api.App
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Create or change an application: its instances, resources and command",
		Long: `Create or change an application: its instances, resources and command.

A flag that is not set keeps its value. A new application needs --command. A change of
the command, the release or the resources makes a new version, whose instances replace
the old ones. A change of the count keeps the version.

With --release, each machine fetches and verifies that release from the bucket before it
runs the command, which finds the files in the folder $WEIR_RELEASE_DIR.`,
		Example: `  weir app set web --instances 5 --cpus 0.2 --mem 64 --command 'while :; do date; sleep 5; done'
  weir app set web --release shop/web@v1.2.0 --command 'exec $WEIR_RELEASE_DIR/web'
  weir app set web --instances 20`,
		Args: command.OneArg("application name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			want.Name = args[0]
			if !names.Valid(want.Name) {
				return badAppName(want.Name)
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				return cli.setApp(ctx, b, want, cmd.Flags().Changed)
			})
		},
	}
	f := cmd.Flags()
	f.IntVarP(&want.Instances, "instances", "n", 1, "number of instances that should run")
	f.Float64Var(&want.CPUs, "cpus", 0.1, "cores of one instance")
	f.Float64Var(&want.Mem, "mem", 64, "MB of memory of one instance")
	f.Float64Var(&want.Disk, "disk", 0, "MB of disk of one instance")
	f.Float64Var(&want.GPUs, "gpus", 0, "GPUs of one instance")
	f.StringVar(&want.Command, "command", "", "command of an instance, run by /bin/sh -c")
	f.StringVar(&want.Release, "release", "", "NAMESPACE/NAME@VERSION in the bucket, whose files the command finds in $WEIR_RELEASE_DIR; empty: none")
	return cmd
}

// setApp writes a row; flags that are not changed keep an old row's value.
func (cli *appCommands) setApp(ctx context.Context, b *bus.Bus, want api.App, changed func(string) bool) error {
	if _, err := appsBucket(ctx, b, cli.Cluster); err != nil {
		return err
	}
	old, revision, err := readApp(ctx, b, cli.Cluster, want.Name)
	switch {
	case errors.Is(err, errNoApp) && want.Command == "":
		return usage.New(fmt.Errorf("application %s is new: set its command with --command", want.Name))
	case errors.Is(err, errNoApp):
		want.Pool = cli.Pool
	case err != nil:
		return err
	default:
		want = merge(old, want, changed)
		if changed("pool") {
			want.Pool = cli.Pool
		}
	}
	want.Version = message.VersionOf(want)
	want.Updated = time.Now().UTC()
	if err := message.ValidateApp(want); err != nil {
		return usage.New(fmt.Errorf("app %s: %w", want.Name, err))
	}
	if err := writeApp(ctx, b, cli.Cluster, want, revision); err != nil {
		return err
	}
	fmt.Fprintf(cli.Stdout, "%s: %d instances of version %s in pool %s\n", want.Name, want.Instances, want.Version, want.Pool)
	if _, err := view.Last(ctx, b, cli.Cluster, want.Pool); errors.Is(err, state.ErrNoRecord) {
		fmt.Fprintf(cli.Stderr, "weir: warning: %v\n", err)
	}
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

// errUnreadable is the error of a row that cannot be decoded.
var errUnreadable = errors.New("application cannot be read")

func badAppName(name string) error {
	return usage.New(fmt.Errorf("application name %q: %s", name, names.Rule))
}

// errNoApp is the error of a name without a row in the bucket.
var errNoApp = errors.New("no such application")

func appsBucket(ctx context.Context, b *bus.Bus, cluster string) (jetstream.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	kv, err := b.JetStream().KeyValue(ctx, message.AppsBucket(cluster))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("cluster %q has no applications bucket: is its harmonizer running?", cluster)
	}
	return kv, err
}

// readApp returns a row and its revision, which is 0 if the store cannot read it.
func readApp(ctx context.Context, b *bus.Bus, cluster, name string) (api.App, uint64, error) {
	if !names.Valid(name) {
		return api.App{}, 0, badAppName(name)
	}
	found, err := integrity.Read(ctx, b.JetStream(), message.AppsBucket(cluster), name)
	if err != nil {
		return api.App{}, 0, fmt.Errorf("read application %s: %w", name, err)
	}
	if len(found.Keys) == 0 || found.Keys[0].Deleted {
		return api.App{}, 0, noApp(ctx, b, cluster, name)
	}
	row, err := rowOfApp(found.Keys[0])
	return row, found.Keys[0].Revision, err
}

// noApp returns the error for an application that has no row, with the names of those that
// have one.
func noApp(ctx context.Context, b *bus.Bus, cluster, name string) error {
	found, err := integrity.Read(ctx, b.JetStream(), message.AppsBucket(cluster))
	if err != nil {
		return fmt.Errorf("list applications: %w", err)
	}
	var rows []string
	for _, k := range found.Keys {
		if !k.Deleted {
			rows = append(rows, k.Name)
		}
	}
	return missingApp(name, rows)
}

// missingApp returns the error for an application that is not among those.
func missingApp(name string, others []string) error {
	if len(others) == 0 {
		return usage.New(fmt.Errorf("%w: %s; there are no applications: set one with \"weir app set\"", errNoApp, name))
	}
	return usage.New(fmt.Errorf("%w: %s%s; \"weir app list\" shows all", errNoApp, name, spelling.Suggest(name, others)))
}

// rowOfApp decodes a row; errUnreadable if that is impossible.
func rowOfApp(k integrity.Key) (api.App, error) {
	err := errors.New("the store cannot read its row")
	if !k.Damaged {
		var row api.App
		if row, err = message.DecodeApp(k.Value); err == nil && row.Name != k.Name {
			err = fmt.Errorf("its row has the name %q", row.Name)
		}
		if err == nil {
			return row, nil
		}
	}
	return api.App{}, fmt.Errorf("%w: %s: %w; \"weir app delete %s\" removes it", errUnreadable, k.Name, err, k.Name)
}

// Bounds of a write, which outlasts the election of a leader, and of reading it again.
const (
	appWriteTimeout  = 10 * time.Second
	appSettleTimeout = 5 * time.Second
)

// writeApp stores the row if its revision in the bucket is still the given one. A new
// row has revision 0. If the write has no answer, the row is read again.
func writeApp(ctx context.Context, b *bus.Bus, cluster string, row api.App, revision uint64) error {
	data, err := json.Marshal(row)
	if err != nil {
		return err
	}
	bound, cancel := context.WithTimeout(ctx, appWriteTimeout)
	defer cancel()
	apps := kvbucket.New(b.JetStream(), message.AppsBucket(cluster))
	if revision == 0 { // a new one, or one that was deleted
		now, err := apps.Get(bound, row.Name)
		switch {
		case err != nil:
			return fmt.Errorf("write application %s: %w", row.Name, err)
		case now.Found:
			return errAppChanged(row.Name)
		}
		revision = now.Revision
	}
	_, err = apps.Update(bound, row.Name, data, revision)
	switch {
	case errors.Is(err, kvbucket.ErrUnknown):
		err = settledApp(ctx, apps, row.Name, data, err)
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return errAppChanged(row.Name)
	}
	if err != nil {
		return fmt.Errorf("write application %s: %w", row.Name, err)
	}
	return announceApp(b.Conn(), row.Name)
}

func errAppChanged(name string) error {
	return fmt.Errorf("application %s was changed by another command at the same time: read it with \"weir app get\" and try again", name)
}

// eraseApp deletes the row if its revision in the bucket is still the given one. If the write of the delete marker has no
// answer, the row is read again.
func eraseApp(ctx context.Context, b *bus.Bus, cluster, name string, revision uint64) error {
	bound, cancel := context.WithTimeout(ctx, appWriteTimeout)
	defer cancel()
	apps := kvbucket.New(b.JetStream(), message.AppsBucket(cluster))
	_, err := apps.Delete(bound, name, revision)
	switch {
	case errors.Is(err, kvbucket.ErrUnknown):
		return settledApp(ctx, apps, name, nil, err)
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return errAppChanged(name)
	}
	return err
}

// settledApp reads a row whose write has no answer. It returns nil if the row is stored; nil data is a deleted row.
// Otherwise the write may still be applied, so the error is not one of a failed write.
func settledApp(ctx context.Context, apps *kvbucket.Bucket, name string, data []byte, unknown error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appSettleTimeout)
	defer cancel()
	if now, err := apps.Get(ctx, name); err == nil && now.Found == (data != nil) && (data == nil || bytes.Equal(now.Value, data)) {
		return nil
	}
	return fmt.Errorf("%w; read it with \"weir app get %s\" before you try again", unknown, name)
}

func announceApp(nc *nats.Conn, name string) error {
	data, err := json.Marshal(message.Updated{Partition: message.Partition, App: name})
	if err != nil {
		return err
	}
	if err := nc.Publish(message.SubjectUpdated, data); err != nil {
		return fmt.Errorf("announce application %s: %w", name, err)
	}
	return nc.Flush()
}

func (cli *appCommands) getCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Print the expected state of an application",
		Example: `  weir app get web
  weir app get web --output json`,
		Args: command.OneArg("application name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				if _, err := appsBucket(ctx, b, cli.Cluster); err != nil {
					return err
				}
				row, _, err := readApp(ctx, b, cli.Cluster, args[0])
				if err != nil {
					return err
				}
				if cli.Output == "json" {
					return cli.PrintJSON(row)
				}
				cli.printApps([]api.App{row})
				return nil
			})
		},
	}
	cli.NamesFlag(cmd, func(v any) []string { return []string{v.(api.App).Name} })
	return cmd
}

func (cli *appCommands) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the applications of the cluster",
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
					cli.printApps(rows)
				}
				return errors.Join(bad...)
			})
		},
	}
	cli.WatchFlag(cmd)
	cli.NamesFlag(cmd, command.EachName(func(a api.App) string { return a.Name }))
	return cmd
}

// listApps returns the rows in order of name, and an error for each row that cannot be read.
func listApps(ctx context.Context, b *bus.Bus, cluster string) (rows []api.App, bad []error, err error) {
	if _, err := appsBucket(ctx, b, cluster); err != nil {
		return nil, nil, err
	}
	found, err := integrity.Read(ctx, b.JetStream(), message.AppsBucket(cluster))
	if err != nil {
		return nil, nil, fmt.Errorf("list applications: %w", err)
	}
	rows = []api.App{}
	for _, k := range found.Keys {
		if k.Deleted {
			continue
		}
		if row, err := rowOfApp(k); err != nil {
			bad = append(bad, err)
		} else {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(x, y api.App) int { return strings.Compare(x.Name, y.Name) })
	return rows, bad, nil
}

func (cli *appCommands) printApps(rows []api.App) {
	var out [][]string
	for _, r := range rows {
		out = append(out, []string{r.Name, r.Pool, fmt.Sprint(r.Instances), explain.Quantity(r.CPUs),
			explain.Quantity(r.Mem), explain.Quantity(r.Disk), r.Version, r.Command})
	}
	cli.PrintTable([]string{"name", "pool", "instances", "cpus", "mem MB", "disk MB", "version", "command"}, out)
}

func (cli *appCommands) deleteCommand() *cobra.Command {
	damaged := false
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete an application and stop its instances",
		Long: `Delete an application and stop its instances. If the store cannot read the row of the
application, its bucket is written again without the row. Only the role admin may do
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
				if _, err := appsBucket(ctx, b, cli.Cluster); err != nil {
					return err
				}
				_, revision, err := readApp(ctx, b, cli.Cluster, args[0])
				if err != nil && !errors.Is(err, errUnreadable) {
					return err
				}
				if err := cli.deleteApp(ctx, b, args[0], revision); err != nil {
					return fmt.Errorf("delete application %s: %w", args[0], err)
				}
				fmt.Fprintf(cli.Stdout, "%s: deleted\n", args[0])
				return announceApp(b.Conn(), args[0])
			})
		},
	}
	cmd.Flags().BoolVar(&damaged, "damaged", false, "connect as the role admin, which may delete a row that the store cannot read")
	return cmd
}

// rewriteTimeout bounds the rewrite of the bucket without a damaged row. It is long: until
// the rewrite ends, the applications are unknown.
const rewriteTimeout = 2 * time.Minute

// deleteApp deletes a row of that revision; 0 is that of a row that the store cannot read.
func (cli *appCommands) deleteApp(ctx context.Context, b *bus.Bus, name string, revision uint64) error {
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

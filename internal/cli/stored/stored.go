// Package stored has the commands of "weir state", for the stored data of a cluster.
//
// They list damage, accept a loss, set a value aside, and write and restore copies of all buckets and streams. The
// commands that write need the credentials of role admin, except "weir state accept". [Command] returns the commands.
// One goroutine uses them.
package stored

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// commands are the commands of "weir state".
type commands struct{ *connect.CLI }

// Command returns "weir state" with its subcommands.
func Command(c *connect.CLI) *cobra.Command {
	cli := &commands{c}
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Check stored data, accept a loss, back up, and restore",
		Example: `  weir state check
  weir state backup prod.tar
  weir state accept apps --reason "restored the copy of 03:00"
  weir state aside drain.i-1 --pool default --reason "bytes flipped on nats-1"`,
		Args: command.Group,
		RunE: command.Help,
	}
	cmd.AddCommand(cli.checkCommand(), cli.acceptCommand(), cli.asideCommand(), cli.backupCommand(), cli.restoreCommand())
	return cmd
}

// errDamaged is the error of a check that finds damage.
var errDamaged = errors.New("stored data is damaged, lost or older than before")

func (cli *commands) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "List missing streams, and damaged, lost and outdated keys of the cluster",
		Long: `List missing streams, and damaged, lost and outdated keys of the cluster. The harmonizer
(reader "apps") and each autoscaler (reader "pool.NAME") compare each key with the
revision that they read before. Such a key is treated as unknown: no instance is
stopped and no pool shrinks because of it.

Without the readers, the command finds values that the store cannot read, values of
pools that an autoscaler cannot decode, and messages that another client made the
server store: those with headers of the server, in all buckets and among the newest
1000 messages of each stream, and those with foreign subjects. The exit code is 1 if
the command finds a problem.`,
		Example: `  weir state check
  weir state check --output json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cli.WithBus(cmd.Context(), cli.check) },
	}
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) check(ctx context.Context, b *bus.Bus) error {
	pools, err := cli.Fleet(b).Pools(ctx)
	if err != nil {
		return err
	}
	alarms, err := integrity.Alarms(ctx, b.JetStream(), cli.Cluster, pools...)
	if err != nil {
		return err
	}
	damaged, err := cli.found(ctx, b, pools, alarms)
	if err != nil {
		return err
	}
	if len(damaged) > 0 {
		alarms = append(alarms, integrity.Alarm{Reader: "-", At: time.Now().UTC(), Count: len(damaged), Problems: damaged})
	}
	if cli.Output == "json" {
		if err := cli.PrintJSON(append([]integrity.Alarm{}, alarms...)); err != nil {
			return err
		}
	} else {
		cli.printAlarms(alarms)
	}
	if len(alarms) > 0 {
		return errDamaged
	}
	return nil
}

func (cli *commands) printAlarms(alarms []integrity.Alarm) {
	if len(alarms) == 0 {
		fmt.Fprintln(cli.Stdout, "no damage is reported")
		return
	}
	var rows [][]string
	for _, a := range alarms {
		for _, p := range a.Problems {
			rows = append(rows, []string{a.Reader, p.Bucket, cell.OrDash(p.Key), p.Expected, p.Found})
		}
	}
	cli.PrintTable([]string{"reader", "bucket", "key", "expected", "found"}, rows)
	for _, a := range alarms {
		if more := a.Count - len(a.Problems); more > 0 {
			fmt.Fprintf(cli.Stdout, "reader %s reports %d more\n", a.Reader, more)
		}
		for _, p := range a.Problems {
			if command := view.AsideCommand(cli.Cluster, p); command != "" {
				fmt.Fprintf(cli.Stdout, "Restore the value, or set it aside: %s --reason TEXT\n", command)
			}
		}
		if a.Digest != "" {
			fmt.Fprintf(cli.Stdout, "Write what is lost again, or accept the loss: weir state accept %s --reason TEXT\n", a.Reader)
		}
	}
}

func (cli *commands) acceptCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "accept READER",
		Short: "Accept stored data as it is now, after damage or a restore",
		Long: `Accept stored data as it is now, after damage or a restore. The keys that "weir state
check" lists for the reader become valid as they are. Lost applications are then
deleted, and their instances are stopped. Outdated rows become valid again, also the
rows of applications that were deleted later. If more damage appears meanwhile, the
command accepts nothing. To keep an application, write it again with "weir app set"
first. A value that cannot be read stays unknown: remove it, for example with "weir app
delete".`,
		Example: `  weir state accept apps --reason "restored the copy of 03:00"
  weir state accept pool.default --reason "disk of nats-1 was replaced"`,
		Args: command.OneArg(`reader, as "weir state check" lists it`),
		RunE: func(cmd *cobra.Command, args []string) error {
			reader, err := cli.reader(args[0])
			if err != nil {
				return err
			}
			if reason == "" {
				return usage.New(errors.New("--reason is missing: state why the loss is accepted"))
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.accept(ctx, b, reader, reason) })
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, logged with your user name")
	return cmd
}

// reader returns the reader of that name, or an error if no process reads the stored data under it.
func (cli *commands) reader(name string) (integrity.Reader, error) {
	pool, ofPool := strings.CutPrefix(name, integrity.PoolPrefix)
	switch {
	case name == integrity.AppsName:
		return integrity.AppsReader(cli.Cluster), nil
	case ofPool && names.Valid(pool):
		return integrity.PoolReader(cli.Cluster, pool), nil
	}
	return integrity.Reader{}, usage.New(fmt.Errorf("reader %q: want %s, or %sNAME with the name of a pool%s; \"weir state check\" lists the readers that report damage",
		name, integrity.AppsName, integrity.PoolPrefix, spelling.DidYouMean(name, []string{integrity.AppsName})))
}

// acceptLook is the interval at which the command checks whether the reader applied the acceptance.
const acceptLook = 100 * time.Millisecond

func (cli *commands) accept(ctx context.Context, b *bus.Bus, reader integrity.Reader, reason string) error {
	js := b.JetStream()
	alarm, err := reader.Alarm(ctx, js)
	if err != nil {
		return err
	}
	if alarm == nil {
		return fmt.Errorf("reader %s reports no damage; \"weir state check\" lists the readers that do", reader.Name)
	}
	if alarm.Digest == "" {
		return fmt.Errorf("reader %s reports only values that cannot be read, such as %v: write them again, or remove them", reader.Name, alarm.Problems[0])
	}
	err = reader.Accept(ctx, js, *alarm, integrity.Acceptance{By: command.Operator(), Reason: reason, At: time.Now().UTC()})
	if err != nil {
		return err
	}
	look := time.NewTicker(acceptLook)
	defer look.Stop()
	for {
		now, err := reader.Alarm(ctx, js)
		if err == nil && (now == nil || now.Digest != alarm.Digest) {
			if reader.Name == integrity.AppsName {
				if err := cli.markLost(ctx, b, *alarm); err != nil {
					return err
				}
			}
			fmt.Fprintf(cli.Stdout, "%s: accepted, %d problems\n", reader.Name, alarm.Count)
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("the acceptance is stored, but reader %s has not applied it: check that %s runs: %w", reader.Name, cell.OrDash(alarm.By), ctx.Err())
		}
	}
}

// markLost marks lost applications as deleted. Without a mark, a placer keeps their instances.
func (cli *commands) markLost(ctx context.Context, b *bus.Bus, alarm integrity.Alarm) error {
	for _, p := range alarm.Problems {
		if !p.Lost() {
			continue
		}
		_, err := kvbucket.New(b.JetStream(), p.Bucket).Delete(ctx, p.Key, 0)
		if err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) { // it was written again meanwhile
			return fmt.Errorf("the loss is accepted, but application %s is not marked as deleted: weir app delete %s: %w", p.Key, p.Key, err)
		}
	}
	if more := alarm.Count - len(alarm.Problems); more > 0 {
		fmt.Fprintf(cli.Stdout, "%d more problems are not listed: the instances of lost applications among them run until \"weir app delete NAME\"\n", more)
	}
	return nil
}

func (cli *commands) asideCommand() *cobra.Command {
	var reason, bucket string
	cmd := &cobra.Command{
		Use:   "aside KEY",
		Short: "Set a value aside that its owner cannot use, so that the owner starts without it",
		Long: `Set a value aside that its owner cannot use, so that the owner starts without it. While
a drain record, the state or the node health of a pool cannot be decoded, its autoscaler
changes nothing, and the first lines of "weir status" name the key. The same holds for
any value that another client made the server store. The command copies the value to
another key of the bucket, which it prints, and deletes it. It refuses values that can be
used. It needs credentials of role admin.

Without a drain record its drain or repair is forgotten: the node runs on, and stays
cordoned until you uncordon it at the scheduler or end it with "weir pool drain".
Without the state the pool starts like a new one, with the targets that the provider
has. Without the health all repairs and quarantines of the pool are forgotten.`,
		Example: `  weir state aside drain.i-1 --pool web --reason "bytes flipped on nats-1"
  weir state aside state --pool web --reason "bytes flipped on nats-1"
  weir state aside lease --bucket weir-harmonizer:prod --reason "forged by a stolen key"`,
		Args: command.OneArg(`key, as "weir state check" lists it`),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usage.New(errors.New("--reason is missing: state why the value is set aside"))
			}
			if bucket == "" {
				bucket = names.PoolBucket(cli.Cluster, cli.Pool)
			}
			return cli.AsAdmin(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.aside(ctx, b, bucket, args[0], reason) })
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, stored with the value and your user name")
	cmd.Flags().StringVar(&bucket, "bucket", "", "bucket of the key; default: that of the pool")
	return cmd
}

func (cli *commands) aside(ctx context.Context, b *bus.Bus, bucket, key, reason string) error {
	aside, err := state.SetAside(ctx, b.JetStream(), bucket, key, state.Aside{By: command.Operator(), Reason: reason, At: time.Now().UTC()})
	switch {
	case errors.Is(err, state.ErrNotAside):
		return usage.New(fmt.Errorf("%w; \"weir state check\" lists the keys", err))
	case errors.Is(err, state.ErrReadable), errors.Is(err, state.ErrNoValue), errors.Is(err, kvbucket.ErrMissing):
		return fmt.Errorf("%w: nothing to set aside; \"weir state check\" lists damaged values", err)
	case err != nil:
		return err
	}
	fmt.Fprintf(cli.Stdout, "%s: set aside as %s; its owner continues without it\n", key, aside)
	return nil
}

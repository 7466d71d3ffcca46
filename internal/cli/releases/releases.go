// Package releases has the commands of "weir release".
//
// They publish the versions of signals to the bucket of weir.yaml, list, verify and fetch them, and withdraw one. The
// bucket is all that they need, except "weir release forget", which also needs the bus. [Command] returns the
// commands. One goroutine uses them.
package releases

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// commands are the commands of "weir release".
type commands struct{ *connect.CLI }

// Command returns "weir release" with its subcommands.
func Command(c *connect.CLI) *cobra.Command {
	cli := &commands{c}
	cmd := &cobra.Command{
		Use:     "release",
		Aliases: []string{"releases"},
		Short:   "Publish, list, verify, fetch and withdraw releases of signals",
		Long: `Publish, list, verify, fetch and withdraw releases: the versions of signals in the bucket
of weir.yaml.`,
		Example: `  weir release publish shop/rps@v1.4.0 ./bin/rps
  weir release list`,
		Args: command.Group,
		RunE: command.Help,
	}
	cmd.AddCommand(
		cli.keygenCommand(), cli.publishCommand(), cli.listCommand(), cli.showCommand(),
		cli.verifyCommand(), cli.fetchCommand(), cli.yankCommand(), cli.forgetCommand(),
	)
	return cmd
}

func (cli *commands) forgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget NAMESPACE/NAME@VERSION",
		Short: "Accept a version whose content or yank changed in the bucket",
		Long: `Accept a version whose content or yank changed in the bucket. The command deletes the
digest and the yank that the hosts of the cluster stored for the version. The next
fetch accepts the content of the bucket. In Clusterman's layout that applies to all
signals of the version. First find out why the version changed: if
its publisher did not change it, another person replaced it.`,
		Example: `  weir release forget shop/rps@v1.4.0`,
		Args:    command.OneArg("NAMESPACE/NAME@VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := release.ParseRef(args[0])
			if err != nil {
				return usage.New(err)
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.forgetRelease(ctx, b, ref) })
		},
	}
}

func (cli *commands) forgetRelease(ctx context.Context, b *bus.Bus, ref release.Ref) error {
	bucket, service, err := cli.Bucket(ctx)
	if err != nil {
		return err
	}
	pools, err := state.Pools(ctx, b.JetStream(), cli.Cluster)
	if err != nil {
		return err
	}
	var seen everyPool
	for _, pool := range pools {
		one, err := state.OpenSeen(ctx, b.JetStream(), cli.Cluster, pool)
		if err != nil {
			return err
		}
		seen = append(seen, one)
	}
	dir, err := cli.DataDir()
	if err != nil {
		return err
	}
	cache, err := release.OpenCache(ctx, release.Config{Dir: filepath.Join(dir, "releases"), Shared: seen})
	if err != nil {
		return err
	}
	if err := signalbucket.Forget(ctx, cache, bucket, service, ref); err != nil {
		return err
	}
	fmt.Fprintf(cli.Stdout, "%s: the next fetch accepts the content of the bucket\n", ref)
	return nil
}

// everyPool has the first-seen records of all pools of a cluster.
type everyPool []state.Seen

// Update implements release.SeenStore. It changes nothing: an operator may not write the records of a pool.
func (everyPool) Update(context.Context, release.SeenKey, release.Seen) (release.Seen, error) {
	return release.Seen{}, nil
}

// Forget implements release.SeenStore.
func (all everyPool) Forget(ctx context.Context, k release.SeenKey) error {
	var errs []error
	for _, one := range all {
		errs = append(errs, one.Forget(ctx, k))
	}
	return errors.Join(errs...)
}

// Package connect has the connections of the commands of weir: to the bus of a cluster, to its metrics store, and to the
// bucket of releases.
//
// The commands of a noun embed a [CLI], which adds the connections to the flags of all commands. CLI.WithBus opens the
// bus, calls a function, and closes the bus. The function has a deadline, the value of --timeout. CLI.OnBus has none.
// One goroutine uses a CLI.
package connect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/diskspace"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/store"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// CLI is a command line whose commands connect to the cluster of its flags.
type CLI struct{ *command.Root }

// Connection returns how a process of that name connects to the bus.
func (cli *CLI) Connection(name string) (bus.Config, error) { return cli.ConnectionOf("", "", name) }

// ConnectionOf is Connection of a process whose own file names servers; see daemon.Settings.
func (cli *CLI) ConnectionOf(place, list, name string) (bus.Config, error) {
	settings, log, err := cli.Daemon()
	if err != nil {
		return bus.Config{}, err
	}
	n, err := config.LoadNATS(settings.Configs)
	if err != nil {
		return bus.Config{}, usage.New(err)
	}
	return settings.BusOf(place, list, n, name, log), nil
}

// WithBus runs f with a connection that it closes again, for at most --timeout.
func (cli *CLI) WithBus(ctx context.Context, f func(ctx context.Context, b *bus.Bus) error) error {
	ctx, cancel := context.WithTimeout(ctx, cli.Timeout)
	defer cancel()
	return cli.OnBus(ctx, f)
}

// OnBus is WithBus without the bound, for commands that go on until Ctrl-C, or print what
// they receive. Each request that f makes needs a deadline of its own.
func (cli *CLI) OnBus(ctx context.Context, f func(ctx context.Context, b *bus.Bus) error) error {
	c, err := cli.Connection("weir command")
	if err != nil {
		return err
	}
	return cli.On(ctx, c, f)
}

// On runs f with a connection that it closes again.
func (cli *CLI) On(ctx context.Context, c bus.Config, f func(ctx context.Context, b *bus.Bus) error) (err error) {
	b, err := bus.Find(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = b.End(err) }()
	err = f(b.WhileOpen(ctx), b) // may change the pool: see TakePool
	err = poolMistake(ctx, b, cli.Cluster, cli.Pool, err)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) {
		return fmt.Errorf("%w; no response in time over the bus at %s: check NATS and its JetStream, or wait longer with --timeout (now %v)",
			err, b.Conn().ConnectedUrlRedacted(), cli.Timeout)
	}
	return err
}

// AsAdmin runs f with a connection of role admin.
func (cli *CLI) AsAdmin(ctx context.Context, f func(ctx context.Context, b *bus.Bus) error) error {
	c, err := cli.Connection("weir command")
	if err != nil {
		return err
	}
	c.User.Role = roles.Admin
	return cli.On(ctx, c, f)
}

// RequestBootstrap returns the status of the bootstrap of the pool.
func (cli *CLI) RequestBootstrap(ctx context.Context, b *bus.Bus) (api.BootstrapStatus, error) {
	return view.Bootstrap(ctx, b, cli.Cluster, cli.Pool)
}

// Reader reads the pool over the bus.
func (cli *CLI) Reader(b *bus.Bus) view.Pool {
	return view.Pool{Bus: b, Cluster: cli.Cluster, Name: cli.Pool, Disks: cli.FullDisks}
}

// RunningConfigs returns the folder of the files that the daemons of this host read, and the data folder of "weir up" if it wrote
// them.
func (cli *CLI) RunningConfigs() (configs, up string) {
	dir, err := cli.DataDir()
	if err != nil || cli.Configs != "" {
		return cli.ConfigDir(), ""
	}
	written := daemon.UpConfigs(dir)
	if info, err := os.Stat(written); err == nil && info.IsDir() {
		return written, dir // "weir up" reads no other files
	}
	return cli.ConfigDir(), ""
}

// MetricsStore returns the store of the service file or, without one, that of the
// data folder, for a writer.
func (cli *CLI) MetricsStore(b *bus.Bus, w store.Writer) (metrics.Store, error) {
	service, err := config.LoadService(cli.ConfigDir())
	if err != nil {
		return nil, usage.New(err)
	}
	return daemon.OpenMetrics(service, b, cli.Cluster, w)
}

// FullDisks returns the full disks of bootstrap's data folder, and of the folder of this
// command if its bus is there: bootstrap may not answer because of them.
func (cli *CLI) FullDisks(p *api.BootstrapStatus) (lines []string) {
	var full []*api.FullDisk
	if p != nil {
		full = p.Full
	}
	if c, err := cli.Connection(""); err == nil && len(c.NATS.Servers) == 0 {
		full = append(full, diskspace.Watched(c.Data, daemon.DataParts()...)...)
	}
	for _, one := range full {
		if line := one.Error(); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// PoolFirst is in the help of commands with nodes or groups after the pool.
const PoolFirst = `

The first argument is the pool if the cluster has a pool of that name and --pool is not
given. All other arguments are %s.`

// TakePool returns the arguments after the pool. If the first one names a pool of the cluster, it becomes the pool of
// the command. With --pool no argument does.
func (cli *CLI) TakePool(ctx context.Context, b *bus.Bus, cmd *cobra.Command, args []string) ([]string, error) {
	if len(args) == 0 || cmd.Flags().Changed("pool") {
		return args, nil
	}
	if !names.Valid(args[0]) {
		return args, command.NotTime(cmd, args[0], "pool")
	}
	within, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	ticked, err := state.Pools(within, b.JetStream(), cli.Cluster)
	if err != nil {
		return nil, fmt.Errorf("find out whether %q is a pool: %w; name the pool with --pool", args[0], err)
	}
	if !slices.Contains(ticked, args[0]) {
		return args, command.NotTime(cmd, args[0], "pool")
	}
	cli.Pool = args[0]
	return args[1:], nil
}

// Fleet reads the pools of the cluster. It reports on standard error what the rows do not have.
func (cli *CLI) Fleet(b *bus.Bus) view.Fleet {
	return view.Fleet{Bus: b, Cluster: cli.Cluster, Configs: cli.ConfigDir(), Warn: func(format string, args ...any) {
		fmt.Fprintf(cli.Stderr, "weir: "+format+"\n", args...)
	}}
}

// poolMistake returns the error of a command about a part of the pool that does not run. If the cluster has other
// pools, and this one has never ticked, it is a mistake in the name.
func poolMistake(ctx context.Context, b *bus.Bus, cluster, pool string, err error) error {
	absent, isAbsent := errors.AsType[*view.AbsentError](err)
	isAbsent = isAbsent && strings.HasPrefix(absent.Part, "bootstrap")
	if !isAbsent && !errors.Is(err, events.ErrNoResponse) && !errors.Is(err, view.ErrNoAutoscaler) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	ticked, errPools := state.Pools(ctx, b.JetStream(), cluster)
	if errPools != nil || len(ticked) == 0 || slices.Contains(ticked, pool) {
		return err
	}
	if mistake, ok := errors.AsType[*usage.Error](view.NoTick(ctx, b, cluster, pool)); ok {
		return mistake
	}
	return err
}

// PrintBusWarnings prints the warnings of the bus as the first lines of a table.
func (cli *CLI) PrintBusWarnings(ctx context.Context, b *bus.Bus) {
	if cli.Output != command.FormTable {
		return
	}
	lines, _ := view.BusWarnings(ctx, b, cli.Cluster, cli.Pool)
	for _, line := range lines {
		terminal.Problem(cli.Stdout, line)
	}
}

// Unreached adds to the error of a status without a connection what that means.
func Unreached(err error) error {
	if _, ok := errors.AsType[*bus.ConnectError](err); ok {
		return fmt.Errorf("%w; while the daemons do not reach NATS either, nothing is scaled, repaired or placed, and machines and instances run on", err)
	}
	return err
}

// OrderHarmonizer sends an order to the harmonizer. It returns an error if the harmonizer rejects the order.
func (cli *CLI) OrderHarmonizer(ctx context.Context, b *bus.Bus, o api.HarmonizerOrder) (api.HarmonizerOrderAnswer, error) {
	var answer api.HarmonizerOrderAnswer
	err := view.Request(ctx, b.Conn(), message.OrderSubject(cli.Cluster), "harmonizer", o, &answer)
	if err == nil && !answer.OK {
		err = fmt.Errorf("the harmonizer rejects the order: %s", answer.Error)
	}
	return answer, err
}

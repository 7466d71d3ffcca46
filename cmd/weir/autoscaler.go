package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/windows"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

const (
	nodeMaxAge  = 30 * time.Second // a node's facts are fresh for so long
	openTimeout = 10 * time.Second // to open what is kept on the bus
)

func (cli *cli) autoscalerCommand() *cobra.Command {
	var directoryFD int
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "autoscaler",
		Short: "Hold one pool at its size (started by weir bootstrap)",
		Long: `Hold one pool at its size: each tick ask the signals, decide, act, record.

Started by "weir bootstrap", which tells it where the signals are. Started by
hand, it finds them at their documented addresses.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if directoryFD != 0 {
				return cli.autoscaleUnderBootstrap(cmd.Context(), directoryFD, dryRun)
			}
			service, pool, err := config.Load(cli.configs(), cli.cluster, cli.pool)
			if err != nil {
				return &usageError{err}
			}
			return cli.autoscale(cmd.Context(), autoscaling{service: service, pool: pool, dryRun: dryRun, directory: fixedDirectory(service, pool)})
		},
	}
	cmd.Flags().IntVar(&directoryFD, "directory-fd", 0, "inherited descriptor of bootstrap's directory")
	cmd.Flags().MarkHidden("directory-fd")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "decide, plan and record, but ask nothing of the provider")
	return cmd
}

// autoscaling is what an autoscaler was told by files and flags.
type autoscaling struct {
	service   config.Service
	pool      config.Pool
	dryRun    bool
	directory autoscaler.Directory
	// follow, if there is one, runs beside the loop and tells it of other files.
	follow func(ctx context.Context, l *autoscaler.Loop) error
}

func (a autoscaling) config() autoscaler.Config {
	c := config.Autoscaler(a.service, a.pool)
	c.DryRun = a.dryRun
	return c
}

func (cli *cli) autoscale(ctx context.Context, a autoscaling) error {
	log, err := cli.logger()
	if err != nil {
		return err
	}
	dir, err := cli.dataDir()
	if err != nil {
		return err
	}
	lock, err := lockPool(dir, "autoscaler", a.pool.Cluster, a.pool.Name)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	b, err := bus.Open(ctx, bus.Config{Data: dir, URL: cli.natsOr(a.service), Name: "autoscaler " + a.pool.Name, Log: log})
	if err != nil {
		return err
	}
	defer b.Close()
	parts := newServices(ctx)
	return parts.stop(loop(parts, b, a, log))
}

// loop runs the pool's loop until the parts end.
func loop(parts *services, b *bus.Bus, a autoscaling, log *slog.Logger) error {
	nodes := local.NewNodes(b.Conn(), a.pool.Cluster, a.pool.Name, nodeMaxAge, log)
	parts.run("nodes", nodes.Run)
	world, err := worldOf(parts.ctx, b, a, nodes)
	if err != nil {
		return err
	}
	l := autoscaler.NewLoop(a.config(), world, log)
	if a.follow != nil {
		parts.run("configuration", func(ctx context.Context) error { return a.follow(ctx, l) })
	}
	return l.Run(parts.ctx)
}

// worldOf wires the loop's ports to what runs on this bus.
func worldOf(ctx context.Context, b *bus.Bus, a autoscaling, nodes *local.Nodes) (autoscaler.World, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	cluster, pool := a.pool.Cluster, a.pool.Name
	ledger, err := state.OpenLedger(ctx, b.JetStream(), cluster, pool)
	if err != nil {
		return autoscaler.World{}, err
	}
	records, err := state.OpenDrains(ctx, b.JetStream(), cluster, pool)
	if err != nil {
		return autoscaler.World{}, err
	}
	var groups autoscaler.Groups
	for _, g := range a.pool.Groups {
		groups = append(groups, local.NewGroup(b.Conn(), cluster, pool, g.Local.Name))
	}
	drains, err := drain.Open(ctx, config.Drain(a.pool), drain.Ports{Records: records, Scheduler: nodes, Groups: groups})
	if err != nil {
		return autoscaler.World{}, err
	}
	store, err := windows.New(embedded.NewClient(b.Conn(), cluster), windows.Config{})
	if err != nil {
		return autoscaler.World{}, err
	}
	return autoscaler.World{
		Groups: groups, Scheduler: nodes, Directory: a.directory, Dial: dialSignal(cluster, pool),
		Metrics: store, Ledger: lastOrNone{ledger}, Drains: drains,
	}, nil
}

// dialSignal returns how the loop reaches a signal: over its socket, and only if
// who listens there belongs to what bootstrap started.
func dialSignal(cluster, pool string) func(autoscaler.Endpoint, autoscaler.Signal) autoscaler.Asker {
	return func(e autoscaler.Endpoint, s autoscaler.Signal) autoscaler.Asker {
		return sigproto.NewClient(sigproto.ClientConfig{
			Address: e.Address, Columnar: e.Columnar,
			Hello: sigproto.Hello{Parameters: s.Parameters, Cluster: cluster, Pool: pool},
			CheckPeer: func(pid int) error {
				if e.Group != 0 && !supervise.BelongsTo(pid, e.Group) {
					return fmt.Errorf("process %d listens there, which does not belong to process %d that bootstrap started", pid, e.Group)
				}
				return nil
			},
		})
	}
}

// lastOrNone tells a loop that there is no record without an error.
type lastOrNone struct{ *state.Ledger }

func (l lastOrNone) Last(ctx context.Context) ([]byte, bool, error) {
	data, err := l.Ledger.Last(ctx)
	if errors.Is(err, state.ErrNoRecord) {
		return nil, false, nil
	}
	return data, err == nil, err
}

package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

const (
	nodeMaxAge   = 30 * time.Second // a node's facts are fresh for so long
	openTimeout  = 10 * time.Second // to open what is kept on the bus
	cloudTimeout = 60 * time.Second // to find the groups at AWS
)

func (cli *cli) autoscalerCommand() *cobra.Command {
	var directoryFD int
	var dryRun bool
	var metricsAddr string
	cmd := &cobra.Command{
		Use:   "autoscaler",
		Short: "Hold one pool at its size (started by weir bootstrap)",
		Long: `Hold one pool at its size: each tick ask the signals, decide, act, record.

Started by "weir bootstrap", which tells it where the signals are. Started by
hand, it finds them at their documented addresses.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if directoryFD != 0 {
				return cli.autoscaleUnderBootstrap(cmd.Context(), directoryFD, dryRun, metricsAddr)
			}
			service, pool, err := config.Load(cli.configs(), cli.Cluster, cli.Pool)
			if err != nil {
				return &usageError{err}
			}
			return cli.autoscale(cmd.Context(), autoscaling{
				service: service, pool: pool, configs: cli.configs(), dryRun: dryRun, directory: fixedDirectory(service, pool),
			}, metricsAddr)
		},
	}
	cmd.Flags().IntVar(&directoryFD, "directory-fd", 0, "inherited descriptor of bootstrap's directory")
	cmd.Flags().MarkHidden("directory-fd")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "decide, plan and record, but ask nothing of the provider")
	cmd.Flags().StringVar(&metricsAddr, "metrics-addr", "", "where Prometheus reads /metrics of node health, such as 127.0.0.1:9465; default: nowhere")
	return cmd
}

// autoscaling is what an autoscaler was told by files and flags.
type autoscaling struct {
	service   config.Service
	pool      config.Pool
	configs   string // folder of the files of all pools
	dryRun    bool
	directory ask.Directory
	// follow, if there is one, runs beside a loop and tells it of other files.
	follow func(ctx context.Context, l *autoscaler.Loop) error
	// refresh, if there is one, reads the files that are to be followed now.
	refresh func() (autoscaling, error)
}

func (a autoscaling) config() autoscaler.Config {
	c := config.Autoscaler(a.service, a.pool)
	c.DryRun = a.dryRun
	return c
}

func (cli *cli) autoscale(ctx context.Context, a autoscaling, metricsAddr string) error {
	log, err := cli.logger()
	if err != nil {
		return err
	}
	for _, w := range config.Warnings(a.service, a.pool) {
		log.Warn("a key of the files is read over", "key", w.Key, "at", w.Error())
	}
	dir, err := cli.dataDir()
	if err != nil {
		return err
	}
	what := "autoscaler"
	if a.dryRun {
		what = "dry run of an autoscaler"
	}
	lock, err := daemon.LockPool(dir, what, a.pool.Cluster, a.pool.Name)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	holder, err := daemon.HolderName(dir, a.pool.Cluster, a.pool.Name)
	if err != nil {
		return err
	}
	b, err := bus.Open(ctx, bus.Config{Data: dir, URL: cli.NATSOr(a.service), Name: "autoscaler " + a.pool.Name, Log: log})
	if err != nil {
		return err
	}
	defer b.Close()
	parts := daemon.NewServices(ctx)
	pool, err := openParts(parts, b, a, log)
	if err != nil {
		return parts.Stop(err)
	}
	t := &terms{bus: b, holder: holder, log: log, told: a, parts: pool}
	if metricsAddr != "" {
		listener, err := net.Listen("tcp", metricsAddr)
		if err != nil {
			return parts.Stop(fmt.Errorf("metrics for Prometheus: %w; choose another address", err))
		}
		defer listener.Close()
		if err := daemon.ServeProm(cli.stdout, parts, listener, &t.metrics, log); err != nil {
			return parts.Stop(err)
		}
	}
	return parts.Stop(t.run(parts.Context()))
}

// dialSignal returns a function that opens clients of signals. A client accepts only
// a listener that belongs to the process that bootstrap started.
func dialSignal(cluster, pool string) func(ask.Endpoint, ask.RequestSpec) ask.Client {
	return func(e ask.Endpoint, r ask.RequestSpec) ask.Client {
		return sigproto.NewClient(sigproto.ClientConfig{
			Address: e.Address, Columnar: e.Columnar,
			Hello: sigproto.Hello{Parameters: r.Parameters, Cluster: cluster, Pool: pool},
			CheckPeer: func(pid int) error {
				if e.Group != 0 && !supervise.BelongsTo(pid, e.Group) {
					return fmt.Errorf("process %d listens there, which does not belong to process %d that bootstrap started", pid, e.Group)
				}
				return nil
			},
		})
	}
}

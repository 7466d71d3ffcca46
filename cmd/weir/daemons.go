package main

import (
	"context"
	"flag"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/bootstrapd"
	"github.com/weirkeeper/weirkeeper/pools/local/agent"
)

// daemonCommands are those that run one process of a pool.
type daemonCommands struct{ *shared }

func (cli *daemonCommands) bootstrapCommand() *cobra.Command {
	var printPlan bool
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Run one pool: fetch its signals, supervise them, and start its autoscaler",
		Long: `Run one pool: fetch the signal releases that the pool file pins, verify and
start them, supervise them, and start the pool's autoscaler.

Bootstrap watches the files. When a file changes, only the processes that it affects
change. A new version of a signal is fetched, started beside the old one, evaluated
on live windows, and then replaces it. An invalid file is rejected, and all processes
continue. SIGHUP makes bootstrap read the files at once.

Bootstrap reads the variables of Clusterman if neither a flag nor the pool file sets
the value: CMAN_CLUSTER, CMAN_POOL, CMAN_ARGS (flags of the autoscaler),
CMAN_SIGNALS_BUCKET, CMAN_NUM_SIGNALS, CMAN_SIGNAL_APPS, CMAN_SIGNAL_NAMESPACES,
CMAN_SIGNAL_NAMES, CMAN_SIGNAL_VERSIONS, CMAN_NUM_VERSIONS and
CMAN_VERSIONS_TO_FETCH. Signals are started with all of them.`,
		Example: `  weir bootstrap --cluster everywhere-prod --pool default
  weir bootstrap --pool default --print-plan`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := bootstrapd.Process{CheckArgs: cli.autoscalerCommand().ParseFlags}
			var err error
			if p.Settings, p.Log, err = cli.Daemon(); err != nil {
				return err
			}
			watcher := p.Watcher()
			wanted, err := p.Read(os.Getenv)
			if err != nil {
				return command.Usage(err)
			}
			if printPlan {
				return cli.printJSON(wanted.Plan)
			}
			bars := newBars(cli.Stderr)
			defer bars.close()
			if bars.writer != nil {
				p.Progress = bars.show
			}
			return p.Run(cmd.Context(), wanted, watcher)
		},
	}
	cmd.Flags().BoolVar(&printPlan, "print-plan", false, "print the plan of processes as JSON, and start none of them")
	return cmd
}

func (cli *daemonCommands) autoscalerCommand() *cobra.Command {
	var directoryFD int
	var p autoscalerd.Process
	cmd := &cobra.Command{
		Use:   "autoscaler",
		Short: "Scale one pool (started by weir bootstrap)",
		Long: `Scale one pool. Each tick reads the pool, requests resource requests from the
signals, decides, acts, and records the decision in the ledger.

"weir bootstrap" starts it and sends it the addresses of the signals. Started by
hand, it connects to the documented addresses.`,
		Example: `  weir autoscaler --cluster everywhere-prod --pool default --dry-run`,
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if p.Settings, p.Log, err = cli.Daemon(); err != nil {
				return err
			}
			p.Out = cli.Stdout
			if directoryFD != 0 {
				return p.RunUnderBootstrap(cmd.Context(), directoryFD)
			}
			service, pool, err := config.Load(p.Configs, p.Cluster, p.Pool)
			if err != nil {
				return command.Usage(err)
			}
			return p.Run(cmd.Context(), service, pool)
		},
	}
	cmd.Flags().IntVar(&directoryFD, "directory-fd", 0, "inherited descriptor of bootstrap's directory")
	cmd.Flags().MarkHidden("directory-fd")
	cmd.Flags().BoolVar(&p.DryRun, "dry-run", false, "decide, plan and record, but send no request to the provider")
	cmd.Flags().StringVar(&p.MetricsAddr, "metrics-addr", "", "address that serves /metrics of node health to Prometheus, such as 127.0.0.1:9465; default: none")
	return cmd
}

func (cli *daemonCommands) agentCommand() *cobra.Command {
	c := agent.Config{}.WithDefaults()
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run one machine of a local pool (started by weir up)",
		Long: `Run one machine of a local pool: start and stop application instances on this host
within the resources that the flags declare, and report them in heartbeats over the bus.`,
		Example: `  weir agent --help    # the flags that "weir up" sets`,
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.Validate(); err != nil {
				return command.Usage(err)
			}
			return cli.agent(cmd.Context(), c)
		},
	}
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	c.Bind(flags)
	cmd.Flags().AddGoFlagSet(flags)
	return cmd
}

// agentReconnectWait spreads the connection attempts of thousands of agents after the loss of a server.
const agentReconnectWait = 5 * time.Second

func (cli *daemonCommands) agent(ctx context.Context, c agent.Config) error {
	connection, err := cli.connection("agent " + c.ID)
	if err != nil {
		return err
	}
	if len(connection.NATS.List()) > 0 {
		connection.ReconnectWait = agentReconnectWait
	}
	log := connection.Log
	b, err := bus.Find(ctx, connection)
	if err != nil {
		return err
	}
	defer b.Close()
	return daemon.WithLauncher(ctx, cli.Program, log, func(ctx context.Context, launcher *supervise.Launcher) error {
		one, err := agent.New(c, b.Conn(), launcher, log)
		if err != nil {
			return err
		}
		return one.Run(ctx)
	})
}

func (cli *daemonCommands) keepCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "keep",
		Short:  "Kill the processes that a dead supervisor left behind (started by weir itself)",
		Hidden: true,
		Args:   command.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return supervise.Keep(cli.Stdin, cli.Stdout) },
	}
}

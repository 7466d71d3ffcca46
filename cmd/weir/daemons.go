package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/authd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/bootstrapd"
	"github.com/weirkeeper/weirkeeper/internal/identity"
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
within the resources that the flags declare, and report them in heartbeats over the bus.

With a section "identity" in weir.yaml the agent proves its name to NATS at each
connection, and needs no other credentials. See "weir auth --help".`,
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
	log := connection.Log
	if len(connection.NATS.List()) > 0 { // the server of a data folder has a token
		connection.ReconnectWait = agentReconnectWait
		connection.InboxPrefix = roles.User{Role: roles.Agent, Cluster: c.Cluster, Pool: c.Pool, Node: c.ID}.InboxPrefix()
		if connection.Login, err = cli.login(ctx, c, connection.Data, log); err != nil {
			return err
		}
	}
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

// login returns how the agent proves its identity; nil without a section "identity".
func (cli *daemonCommands) login(ctx context.Context, c agent.Config, dir string, log *slog.Logger) (func(*nats.Options) error, error) {
	service, err := config.LoadService(cli.ConfigDir())
	if err != nil {
		return nil, command.Usage(err)
	}
	claim := identity.Claim{Cluster: c.Cluster, Pool: c.Pool, Node: c.ID}
	login, err := authd.Login(ctx, service.Identity, claim, dir, log)
	if login == nil || err != nil {
		return nil, err
	}
	return login.Apply, nil
}

func (cli *daemonCommands) authCommand() *cobra.Command {
	var metricsAddr string
	cmd := &cobra.Command{
		Use:   "auth",
		Short: "Verify the identity of agents for the NATS servers",
		Long: `Verify the identity of agents for the NATS servers (auth callout). An agent proves the
name of its machine: by its EC2 instance role or identity document, or by a shared
secret. The command gives it a user with the permissions of that node, for about an
hour.

The section "auth" of weir.yaml has the keys and the accepted proofs. Its connection
(section "nats", or --nats) is a user of the account of auth_callout. Run two of them:
they share the requests. docs/identity.md has the configuration of the servers.`,
		Example: `  weir auth --cluster prod
  weir auth --cluster prod --config-dir /etc/weir-auth --metrics-addr 127.0.0.1:9466`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cli.auth(cmd.Context(), metricsAddr) },
	}
	cmd.Flags().StringVar(&metricsAddr, "metrics-addr", "", "address that serves /metrics to Prometheus, /healthz and /varz, such as 127.0.0.1:9466; default: none")
	return cmd
}

func (cli *daemonCommands) auth(ctx context.Context, metricsAddr string) error {
	settings, log, err := cli.Daemon()
	if err != nil {
		return err
	}
	service, err := config.LoadService(settings.Configs)
	if err != nil {
		return command.Usage(err)
	}
	if !service.Auth.Given() {
		return command.Usage(fmt.Errorf("section auth is missing in %s: add issuer_key_file and verifiers, as docs/identity.md shows", filepath.Join(settings.Configs, "weir.yaml")))
	}
	connection := settings.Bus(service.NATS, "weir auth", log)
	if len(connection.NATS.List()) == 0 {
		return command.Usage(errors.New("verify agents: no NATS server is named: set nats.servers in weir.yaml, or --nats"))
	}
	b, err := bus.Find(ctx, connection)
	if err != nil {
		return err
	}
	defer b.Close()
	p := authd.Process{Conn: b.Conn(), Streams: b.JetStream(), Config: service.Auth, Configs: settings.Configs, Cluster: settings.Cluster, Log: log}
	return p.Run(ctx, metricsAddr, cli.Stdout)
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

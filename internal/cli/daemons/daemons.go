// Package daemons has the commands that run one process of a cluster, such as "weir bootstrap" and "weir placer".
//
// A command reads flags and files, takes the sockets of systemd, and calls the package of its daemon below
// internal/daemon. "weir harmonizer" also has commands that record and replay events. [Commands] returns the commands.
// A process runs one of them, and one goroutine uses them until the daemon starts.
package daemons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/cli/progress"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/daemon/authd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/bootstrapd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/notifyd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/placerd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/webd"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/sdnotify"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// commands are those that run one process.
type commands struct{ *connect.CLI }

// Commands returns the commands that run daemons.
func Commands(c *connect.CLI) []*cobra.Command {
	cli := &commands{c}
	return []*cobra.Command{
		cli.bootstrapCommand(), cli.autoscalerCommand(), cli.agentCommand(), cli.authCommand(), cli.placerCommand(),
		cli.notifyCommand(), cli.webCommand(), cli.keepCommand(), (&harmonizerCommands{c}).harmonizerCommand(),
	}
}

func (cli *commands) bootstrapCommand() *cobra.Command {
	var printPlan bool
	var adminAddr string
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Run the signals and the autoscaler of one pool",
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
			p := bootstrapd.Process{CheckArgs: cli.autoscalerCommand().ParseFlags, AdminAddr: adminAddr, Out: cli.Stdout}
			var err error
			if p.Settings, p.Log, err = cli.Daemon(); err != nil {
				return err
			}
			watcher := p.Watcher()
			wanted, err := p.Read(os.Getenv)
			if err != nil {
				return usage.New(err)
			}
			if printPlan {
				return cli.PrintJSON(wanted.Plan)
			}
			if p.Notify, err = sdnotify.Take(); err != nil {
				return err
			}
			bars := progress.New(cli.Stderr)
			defer bars.Close()
			if bars.OnTerminal() {
				p.Progress = bars.Show
			}
			return p.Run(cmd.Context(), wanted, watcher)
		},
	}
	cmd.Flags().BoolVar(&printPlan, "print-plan", false, "print the plan of processes as JSON, and start none of them")
	command.AdminFlag(cmd, &adminAddr, "127.0.0.1:9463")
	return cmd
}

func (cli *commands) autoscalerCommand() *cobra.Command {
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
				return usage.New(err)
			}
			return p.Run(cmd.Context(), service, pool)
		},
	}
	cmd.Flags().IntVar(&directoryFD, "directory-fd", 0, "inherited descriptor of bootstrap's directory")
	cmd.Flags().MarkHidden("directory-fd")
	cmd.Flags().BoolVar(&p.DryRun, "dry-run", false, "decide, plan and record, but send no request to the provider")
	command.AdminFlag(cmd, &p.AdminAddr, "off")
	return cmd
}

func (cli *commands) authCommand() *cobra.Command {
	var adminAddr string
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
  weir auth --cluster prod --config-dir /etc/weir-auth --admin-addr 127.0.0.1:9466`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cli.auth(cmd.Context(), adminAddr) },
	}
	command.AdminFlag(cmd, &adminAddr, "127.0.0.1:9466")
	return cmd
}

func (cli *commands) auth(ctx context.Context, adminAddr string) (err error) {
	notify, err := sdnotify.Take()
	if err != nil {
		return err
	}
	settings, log, err := cli.Daemon()
	if err != nil {
		return err
	}
	service, err := config.LoadService(settings.Configs)
	if err != nil {
		return usage.New(err)
	}
	if !service.Auth.Given() {
		return usage.New(fmt.Errorf("section auth is missing in %s: add issuer_key_file and verifiers, as docs/identity.md shows", filepath.Join(settings.Configs, "weir.yaml")))
	}
	connection := settings.Bus(service.NATS, "weir auth", log)
	if len(connection.NATS.Servers) == 0 {
		return usage.New(errors.New("verify agents: no NATS server is named: set nats.servers in weir.yaml, or --nats"))
	}
	connection.Wait = true
	server := admin.Config{Daemon: config.DaemonAuth, Settings: service.Admin, Flag: adminAddr, Out: cli.Stdout, Log: log}
	if server.Opened, err = admin.Open(server, &connection); err != nil {
		return err
	}
	defer server.Opened.Close()
	b, err := bus.Find(ctx, connection)
	if err != nil {
		return err
	}
	defer func() { err = b.End(err) }()
	p := authd.Process{Bus: b, Config: service.Auth, Configs: settings.Configs, Cluster: settings.Cluster, Notify: notify, Log: log}
	return p.Run(b.WhileOpen(ctx), server)
}

func (cli *commands) placerCommand() *cobra.Command {
	var adminAddr string
	cmd := &cobra.Command{
		Use:   "placer [POOL]...",
		Short: "Place the application instances of pools on their machines",
		Long: `Place the application instances of pools on their machines. The placer receives the
requests of the harmonizer, and requests starts and stops from the agents. Without an
argument it places those of --pool. "weir up" runs one already.

If a pool has several placers, one works and the others stand by. When its lease ends,
a standby takes over with the stored assignments: no instance stops or starts for it.

Each pool has a connection of its own. In the block nats of weir.yaml, {pool} stands for
the pool: nkey_file: /etc/weir/prod.placer.{pool}.nk.`,
		Example: `  weir placer web --cluster prod
  weir placer web batch --cluster prod --config-dir /etc/weir`,
		Args: cli.poolArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{cli.Pool}
			}
			return cli.placer(cmd.Context(), args, adminAddr)
		},
	}
	command.AdminFlag(cmd, &adminAddr, "127.0.0.1:9469")
	return cmd
}

// poolArgs accepts the names of pools in place of --pool.
func (cli *commands) poolArgs(cmd *cobra.Command, args []string) error {
	for _, pool := range args {
		if !names.Valid(pool) {
			return usage.New(fmt.Errorf("pool %q: %s\nSee %q", pool, names.Rule, cmd.CommandPath()+" --help"))
		}
	}
	if len(args) > 0 && cmd.Flags().Changed("pool") {
		return usage.New(fmt.Errorf("%s has pools as arguments, and %q of --pool; give one of them\nSee %q", cmd.CommandPath(), cli.Pool, cmd.CommandPath()+" --help"))
	}
	return nil
}

func (cli *commands) placer(ctx context.Context, pools []string, adminAddr string) error {
	p := placerd.Process{Pools: pools, AdminAddr: adminAddr, Out: cli.Stdout}
	var err error
	if p.Notify, err = sdnotify.Take(); err != nil {
		return err
	}
	if p.Settings, p.Log, err = cli.Daemon(); err != nil {
		return err
	}
	service, err := config.LoadService(p.Configs)
	if err != nil {
		return usage.New(err)
	}
	harmonizer, _, err := config.LoadHarmonizer(p.Configs) // the harmonizer logs the warnings
	if err != nil {
		return usage.New(err)
	}
	return p.Run(ctx, service, harmonizer)
}

func (cli *commands) notifyCommand() *cobra.Command {
	p := notifyd.Process{}
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "Send the events of all pools to webhooks",
		Long: `Send the events of all pools of the cluster to webhooks: decisions that changed
something, orders, and findings of node health and of the harmonizer. The section
"notify" of weir.yaml has the targets, each with a filter by event, pool and severity.

A target receives its events in order, each at least once. Events wait in a stream of
NATS while a target fails, for a day at most. Several processes with the same targets may
run for a cluster: each event goes to one of them. docs/events.md has the form of a
request.`,
		Example: `  weir notify --cluster prod
  weir notify --cluster prod --config-dir /etc/weir`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if p.Notify, err = sdnotify.Take(); err != nil {
				return err
			}
			if p.Settings, p.Log, err = cli.Daemon(); err != nil {
				return err
			}
			service, err := config.LoadService(p.Configs)
			if err != nil {
				return usage.New(err)
			}
			if len(service.Notify) == 0 {
				return usage.New(fmt.Errorf("section notify is missing in %s: add targets, as docs/events.md shows", filepath.Join(p.Configs, "weir.yaml")))
			}
			p.Out = cli.Stdout
			return p.Run(cmd.Context(), service)
		},
	}
	command.AdminFlag(cmd, &p.AdminAddr, "127.0.0.1:9470")
	return cmd
}

func (cli *commands) webCommand() *cobra.Command {
	p := webd.Process{}
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Serve the dashboard and the HTTP API of the cluster",
		Long: `Serve the dashboard and the HTTP API of the cluster. The pages show all pools, the past
of a pool, and why a tick decided what it did. The API is below /api/v1, and
/api/v1/openapi.yaml documents it.

Without tokens the address must be on this machine, whose users can all read, and orders over
the API are refused. With tokens (the key token_file of the section "web" of weir.yaml) each
request needs one: a browser sends it as the password, with any name, or in a link with
"?token=SECRET". An address that other hosts reach needs tokens and a certificate (the key tls).`,
		Example: `  weir web --cluster prod
  weir web --cluster prod --addr 127.0.0.1:8080`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if p.Notify, err = sdnotify.Take(); err != nil {
				return err
			}
			if p.Settings, p.Log, err = cli.Daemon(); err != nil {
				return err
			}
			service, err := config.LoadService(p.Configs)
			if err != nil {
				return usage.New(err)
			}
			p.Out = cli.Stdout
			return p.Run(cmd.Context(), service)
		},
	}
	cmd.Flags().StringVar(&p.Addr, "addr", "", "address of the dashboard and the API, HOST:PORT (default 127.0.0.1:9480, or web.addr of weir.yaml)")
	command.AdminFlag(cmd, &p.AdminAddr, "127.0.0.1:9471")
	return cmd
}

func (cli *commands) keepCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "keep",
		Short:  "Kill the processes that a dead supervisor left behind (started by weir itself)",
		Hidden: true,
		Args:   command.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return supervise.Keep(cli.Stdin, cli.Stdout) },
	}
	command.IgnoreContext(cmd)
	return cmd
}

package daemons

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/agent/measure"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/daemon/agentd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/authd"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
	"github.com/weirkeeper/weirkeeper/internal/platform/sdnotify"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/resource"
)

func (cli *commands) agentCommand() *cobra.Command {
	c := agent.Config{Keep: true}.WithDefaults()
	var adminAddr string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run one machine of a pool: its application instances and its heartbeats",
		Long: `Run one machine of a pool: start and stop application instances on this host within
its resources, and report them in heartbeats over the bus.

On EC2 the agent needs no flag. It takes cluster, pool, group and id from the first
place that has them: the flags, the section "agent" of weir.yaml, CMAN_CLUSTER and
CMAN_POOL, and the instance metadata (IMDSv2, with tags). It measures its resources if
neither the flags nor weir.yaml have them: processors and memory with the limits of its
cgroups, and the disk of --dir.

Application instances run on when the agent ends or is killed, and the next agent on
this machine adopts them. Its systemd unit needs KillMode=process and Delegate=yes. An
agent with --self-fence-after stops them instead.

With a section "identity" in weir.yaml the agent proves its name to NATS at each
connection, and needs no other credentials. See "weir auth --help".`,
		Example: `  weir agent
  weir agent --cluster prod --pool web --group rack-7 --id host-12 --dir /var/lib/weir-agent/instances`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.SelfFenceAfter > 0 && !cmd.Flags().Changed("keep-instances") {
				c.Keep = false
			}
			chosen, err := cli.chooseMachine(cmd, c)
			if err == nil {
				err = chosen.Validate()
			}
			if err != nil {
				return usage.New(err)
			}
			return cli.agent(cmd.Context(), chosen, adminAddr)
		},
	}
	command.AdminFlag(cmd, &adminAddr, "127.0.0.1:9467")
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	c.Bind(flags)
	cmd.Flags().AddGoFlagSet(flags)
	return cmd
}

// chooseMachine completes the configuration of the flags.
func (cli *commands) chooseMachine(cmd *cobra.Command, c agent.Config) (agent.Config, error) {
	settings, log, err := cli.Daemon()
	if err != nil {
		return c, err
	}
	service, err := config.LoadService(settings.Configs)
	if err != nil {
		return c, err
	}
	return agentd.Place{
		Given: cmd.Flags().Changed, Block: service.Agent, File: filepath.Join(settings.Configs, "weir.yaml"), Getenv: os.Getenv, Dir: filepath.Join(settings.Data, "instances"),
		Measure: func(dir string) (resource.Vector, error) { return measure.Resources(os.DirFS("/"), dir) }, Log: log,
	}.Choose(cmd.Context(), c)
}

// agentReconnectWait spreads the connection attempts of thousands of agents after the loss of a server.
const agentReconnectWait = 5 * time.Second

func (cli *commands) agent(ctx context.Context, c agent.Config, adminAddr string) error {
	notify, err := sdnotify.Take()
	if err != nil {
		return err
	}
	connection, err := cli.Connection("agent " + c.ID)
	if err != nil {
		return err
	}
	log := connection.Log
	service, err := config.LoadService(cli.ConfigDir())
	if err != nil {
		return usage.New(err)
	}
	connection.User = roles.User{Role: roles.Agent, Cluster: c.Cluster, Pool: c.Pool, Node: c.ID}
	if len(connection.NATS.Servers) > 0 { // the server of a data folder verifies users itself
		connection.ReconnectWait = agentReconnectWait
		claim := identity.Claim{Cluster: c.Cluster, Pool: c.Pool, Node: c.ID}
		if err := authd.Identify(ctx, &connection, service.Identity, claim); err != nil {
			return err
		}
	}
	connection.Wait = true
	server := admin.Config{Daemon: config.DaemonAgent, Settings: service.Admin, Flag: adminAddr, Out: cli.Stdout, Log: log}
	if server.Opened, err = admin.Open(server, &connection); err != nil {
		return err
	}
	defer server.Opened.Close()
	b, err := bus.Find(ctx, connection)
	if err != nil {
		return err
	}
	defer b.Close()
	c.Releases = &agentd.Releases{Configs: cli.ConfigDir(), Data: connection.Data, Owner: "agent." + c.Cluster + "." + c.ID, Log: log}
	return daemon.WithLauncher(ctx, cli.Program, log, func(ctx context.Context, launcher *supervise.Launcher) error {
		one, err := agent.New(c, b.Conn(), launcher, log)
		if err != nil {
			return err
		}
		parts := daemon.NewServices(ctx)
		parts.Run("service manager", func(ctx context.Context) error { return notify.Run(ctx, one.Alive) })
		if err := admin.Start(parts, server, admin.Content{Checks: []admin.Check{admin.Bus(b), admin.Loop(one.Alive), admin.Disk(connection.Data)}}); err != nil {
			return parts.Stop(err)
		}
		return parts.Stop(one.Run(parts.Context()))
	})
}

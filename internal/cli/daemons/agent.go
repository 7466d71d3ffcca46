package daemons

import (
	"flag"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/agentd"
	"github.com/weirkeeper/weirkeeper/internal/platform/sdnotify"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

func (cli *commands) agentCommand() *cobra.Command {
	p := agentd.New()
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run one machine of a pool: its instances and its heartbeats",
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
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if p.Machine.SelfFenceAfter > 0 && !cmd.Flags().Changed("keep-instances") {
				p.Machine.Keep = false
			}
			if p.Settings, p.Log, err = cli.Daemon(); err != nil {
				return usage.New(err)
			}
			service, err := config.LoadService(p.Configs)
			if err == nil {
				err = p.Choose(cmd.Context(), service, cmd.Flags().Changed)
			}
			if err != nil {
				return usage.New(err)
			}
			if p.Notify, err = sdnotify.Take(); err != nil {
				return err
			}
			p.Out = cli.Stdout
			return p.Run(cmd.Context(), service)
		},
	}
	command.AdminFlag(cmd, &p.AdminAddr, "127.0.0.1:9467")
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	p.Machine.Bind(flags)
	cmd.Flags().AddGoFlagSet(flags)
	return cmd
}

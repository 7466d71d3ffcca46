package main

import (
	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
)

func (cli *cli) autoscalerCommand() *cobra.Command {
	var directoryFD int
	var p autoscalerd.Process
	cmd := &cobra.Command{
		Use:   "autoscaler",
		Short: "Hold one pool at its size (started by weir bootstrap)",
		Long: `Hold one pool at its size: each tick ask the signals, decide, act, record.

Started by "weir bootstrap", which tells it where the signals are. Started by
hand, it finds them at their documented addresses.`,
		Args: command.NoArgs,
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
	cmd.Flags().BoolVar(&p.DryRun, "dry-run", false, "decide, plan and record, but ask nothing of the provider")
	cmd.Flags().StringVar(&p.MetricsAddr, "metrics-addr", "", "where Prometheus reads /metrics of node health, such as 127.0.0.1:9465; default: nowhere")
	return cmd
}

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/daemon/bootstrapd"
)

func (cli *cli) bootstrapCommand() *cobra.Command {
	var printPlan bool
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Run one pool: fetch its signals, supervise them, and start its autoscaler",
		Long: `Run one pool: fetch the signal releases that the pool file pins, verify and
start them, supervise them, and start the pool's autoscaler.

The files are watched. When they change, what differs is changed while the rest
runs on: a new version of a signal is fetched, started beside the old one, asked
on live windows, and takes its place then. A file that is wrong is refused, and
what runs goes on. SIGHUP has the files read again at once.

The variables of Clusterman are read, where neither a flag nor the pool file says
otherwise: CMAN_CLUSTER, CMAN_POOL, CMAN_ARGS (flags of the autoscaler),
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
				p.Progress = bars.tell
			}
			return p.Run(cmd.Context(), wanted, watcher)
		},
	}
	cmd.Flags().BoolVar(&printPlan, "print-plan", false, "print what would run, as JSON, and run nothing")
	return cmd
}

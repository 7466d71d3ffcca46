package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/pools/local/agent"
)

func (cli *cli) agentCommand() *cobra.Command {
	c := agent.Config{}.WithDefaults()
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Be one machine of a local pool (started by weir up)",
		Long: `Be one machine of a local pool: run application instances on this host within
the resources that it declares, and say over the bus what runs.`,
		Args: command.NoArgs,
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

func (cli *cli) agent(ctx context.Context, c agent.Config) error {
	log, err := cli.Logger()
	if err != nil {
		return err
	}
	dir, err := cli.DataDir()
	if err != nil {
		return err
	}
	b, err := bus.Find(ctx, bus.Config{Data: dir, URL: cli.NATS, Name: "agent " + c.ID, Log: log})
	if err != nil {
		return fmt.Errorf("data folder %s: %w", dir, err)
	}
	defer b.Close()
	return daemon.WithLauncher(ctx, log, func(ctx context.Context, launcher *supervise.Launcher) error {
		one, err := agent.New(c, b.Conn(), launcher, log)
		if err != nil {
			return err
		}
		return one.Run(ctx)
	})
}

package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/windowtrial"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// configCommands are the commands of "weir config".
type configCommands struct {
	*connect.CLI
	compare Compare
}

func (cli *configCommands) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "config",
		Short:   "Check and show configuration files",
		Example: `  weir config validate`,
		Args:    command.Group,
		RunE:    command.Help,
	}
	cmd.AddCommand(cli.showCommand(), cli.schemaCommand())
	cmd.AddCommand(cli.validateCommand())
	return cmd
}

func (cli *configCommands) validateCommand() *cobra.Command {
	var with command.Comparison
	cmd := &cobra.Command{
		Use:     "validate [POOL]",
		Aliases: []string{"check"},
		Short:   "Check weir.yaml, the harmonizer's file and one pool's file, and list every mistake",
		Long: `Check weir.yaml, the harmonizer's file and one pool's file, and list every mistake.

A metric with a source is requested once from that source. If the source rejects the query, the words of the source are
a mistake of the file. If the source does not answer, or has no points now, that is a note, and the exit code is 0.

With --against the command also replays the recorded ticks of the pool, with the recorded policy and with that
of the file. Both meet the recorded requests, launch times and losses. If the cost, the unmet demand, the longest
wait or the disruption of the file is worse by more than its bound, the exit code is 1: a gate for CI. Records have
no places of copies, so the targets of both follow the sums of the requests.`,
		Example: `  weir config validate default --config-dir ./config --cluster prod
  weir config validate --against 7d --bound cost=2% --bound wait=20%
  weir config validate --against night.jsonl --prices prices.csv --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if with.Against == "" && (len(with.Bounds) > 0 || with.Prices != "" || cmd.Flags().Changed("output")) {
				return usage.New(errors.New("--bound, --prices and --output need a past to compare with: add --against, such as --against 7d"))
			}
			return cli.PoolArg(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, _ := cli.RunningConfigs()
			service, pool, err := config.Load(dir, cli.Cluster, cli.Pool, autoscalerd.CheckHealth)
			_, warnings, errHarmonizer := config.LoadHarmonizer(dir)
			gaps, errPrices := service.Prices.Check()
			if err := errors.Join(err, errHarmonizer, errPrices); err != nil {
				return usage.New(err)
			}
			for _, w := range append(config.Warnings(service, pool), warnings...) {
				fmt.Fprintf(cli.Stderr, "weir: warning: %v\n", w)
			}
			for _, gap := range gaps {
				fmt.Fprintf(cli.Stderr, "weir: warning: %s\n", gap)
			}
			notes, err := windowtrial.Check(cmd.Context(), service, pool)
			if err != nil {
				return usage.New(err)
			}
			for _, note := range notes {
				fmt.Fprintf(cli.Stderr, "weir: note: %s\n", terminal.OneLine(note))
			}
			if with.Against != "" {
				return cli.compare(cmd.Context(), cli.CLI, with, filepath.Join(dir, cli.Cluster, cli.Pool+".yaml"))
			}
			fmt.Fprintf(cli.Stdout, "%s: pool %s/%s is valid\n", dir, cli.Cluster, cli.Pool)
			return nil
		},
	}
	cmd.Flags().StringVar(&with.Against, "against", "", "compare with the recorded policy since that `TIME`, such as 7d, or in a file of records")
	cmd.Flags().StringArrayVar(&with.Bounds, "bound", nil, "`NAME=PERCENT` by which cost, unmet, wait or disruption may get worse (default 5%); may be repeated")
	cmd.Flags().StringVar(&with.Prices, "prices", "", "`FILE` of prices, as of a scenario (default: of weir.yaml; without a price of each market the cost is what the machines offered)")
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *configCommands) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show [POOL]",
		Aliases: []string{"get", "view"},
		Short:   "Print the files of a pool with the values that apply",
		Long: `Print weir.yaml, the pool's file and harmonizer.yaml as they are decoded: with defaults.
The block autoscaling of the pool has the values that apply to the pool, also those of
weir.yaml. Passwords are hidden, also in URLs and in parameters. Files with secrets are
not read. Ignored keys are left out.`,
		Example: `  weir config show default --cluster everywhere-prod
  weir config show --output json`,
		Args: cli.PoolArg,
		RunE: func(*cobra.Command, []string) error {
			dir, _ := cli.RunningConfigs()
			service, pool, err := config.Load(dir, cli.Cluster, cli.Pool)
			harmonizer, _, errHarmonizer := config.LoadHarmonizer(dir)
			if err := errors.Join(err, errHarmonizer); err != nil {
				return usage.New(err)
			}
			files := config.Show(service, pool, harmonizer)
			if cli.Form == command.FormJSON {
				return cli.PrintJSON(files)
			}
			for _, f := range files {
				fmt.Fprintf(cli.Stdout, "---\n# %s\n", terminal.OneLine(f.Title()))
				if err := cli.PrintJSON(f.Content); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cli.FormFlag(cmd, command.FormYAML, command.FormJSON)
	return cmd
}

func (cli *configCommands) schemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema [FILE]",
		Short: "Print a JSON Schema of the configuration files",
		Long: `Print a JSON Schema of a file: service (weir.yaml), pool or harmonizer. Without FILE, the
schema has all three below $defs. Editors complete and check keys with it. It has keys,
types and forms of values. "weir config validate" checks more, such as bounds that depend
on other keys.`,
		Example: `  weir config schema > weir.schema.json
  weir config schema pool > pool.schema.json`,
		ValidArgs: config.SchemaFiles(),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.OneArg("file: service, pool or harmonizer")(cmd, args)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			schema, err := config.Schema(strings.Join(args, ""))
			if err != nil {
				return usage.New(err)
			}
			return cli.PrintJSON(schema)
		},
	}
	cli.FormFlag(cmd, command.FormJSON, command.FormYAML)
	return cmd
}

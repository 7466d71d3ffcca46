package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/harmonizer/natsbus"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/local/agent"
)

func (cli *cli) appStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show what runs of all applications, or of one, instance by instance",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return oneArg("application name")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				return cli.appStatus(ctx, b, name)
			})
		},
	}
	cli.outputFlag(cmd)
	return cmd
}

func askHarmonizer(ctx context.Context, b *bus.Bus, cluster, app string) (harmonizer.Status, error) {
	var s harmonizer.Status
	err := askJSON(ctx, b.Conn(), message.StatusSubject(cluster), "harmonizer", natsbus.StatusRequest{App: app}, &s)
	if err == nil && app != "" && s.App == nil {
		err = fmt.Errorf("%w: %s; \"weir app list\" shows all", errNoApp, app)
	}
	return s, err
}

func (cli *cli) appStatus(ctx context.Context, b *bus.Bus, name string) error {
	s, err := askHarmonizer(ctx, b, cli.cluster, name)
	if err != nil {
		return err
	}
	if cli.output == "json" {
		return cli.printJSON(s)
	}
	if !s.Complete {
		fmt.Fprintf(cli.stdout, "! nothing is started or stopped now: %s\n", s.Why)
	}
	if s.App != nil {
		cli.printIndices(*s.App)
		return nil
	}
	var rows [][]string
	for _, one := range s.Apps {
		n := one.Count
		rows = append(rows, []string{one.Name, orDash(one.Pool), one.Version, fmt.Sprint(n.Expected), fmt.Sprint(n.Running),
			fmt.Sprint(n.Missing), fmt.Sprint(n.Crashed), fmt.Sprint(n.Flapping), fmt.Sprint(n.Extra), one.Problem})
	}
	cli.printTable([]string{"app", "pool", "version", "expected", "running", "missing", "crashed", "flapping", "extra", "problem"}, rows)
	return nil
}

func (cli *cli) printIndices(e apps.Explanation) {
	fmt.Fprintf(cli.stdout, "%s: %d expected, %d running, %d missing, %d crashed, %d flapping\n",
		e.Name, e.Count.Expected, e.Count.Running, e.Count.Missing, e.Count.Crashed, e.Count.Flapping)
	now := time.Now()
	var rows [][]string
	for _, i := range e.Indices {
		last := ""
		if i.Last != nil {
			last = fmt.Sprintf("%s %s ago", strings.ReplaceAll(string(i.Last.Kind), "_", " "), ago(now, i.LastAt))
			if i.Last.Why != "" {
				last += ": " + strings.ReplaceAll(string(i.Last.Why), "_", " ")
			}
		}
		if len(i.Instances) == 0 {
			state := "missing"
			if i.NotBefore.After(now) {
				state = fmt.Sprintf("starts in %s", ago(i.NotBefore, now))
			}
			rows = append(rows, []string{fmt.Sprint(i.Index), state, "-", "-", ago(now, i.Missing), fmt.Sprint(i.Crashes), last})
		}
		for _, c := range i.Instances {
			since := time.UnixMilli(int64(c.Since * 1000))
			rows = append(rows, []string{fmt.Sprint(i.Index), string(c.State), c.Node, c.ID, ago(now, since), fmt.Sprint(i.Crashes), last})
		}
	}
	cli.printTable([]string{"index", "state", "node", "instance", "for", "crashes", "last"}, rows)
}

func (cli *cli) appLogsCommand() *cobra.Command {
	var index, lines int
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the last output of an application's instances, ended ones included",
		Example: `  weir app logs web
  weir app logs web --index 3 --lines 100`,
		Args: oneArg("application name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 0 {
				return &usageError{fmt.Errorf("--lines %d: want at least 0", lines)}
			}
			request := agent.LogsRequest{App: args[0], Lines: lines}
			if cmd.Flags().Changed("index") {
				request.Index = &index
			}
			return cli.withBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				return cli.appLogs(ctx, b, request)
			})
		},
	}
	cmd.Flags().IntVar(&index, "index", 0, "this index only")
	cmd.Flags().IntVar(&lines, "lines", 10, "lines of each instance; 0 is all that is kept")
	cli.outputFlag(cmd)
	return cmd
}

func (cli *cli) appLogs(ctx context.Context, b *bus.Bus, request agent.LogsRequest) error {
	nodes, err := cli.nodesOf(ctx, b)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client := agent.NewClient(b.Conn(), cli.cluster)
	replies := make([]agent.LogsReply, len(nodes))
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() { replies[i], errs[i] = client.Logs(ctx, node, request) })
	}
	wg.Wait()
	copies := []agent.CopyLog{}
	for i, reply := range replies {
		if errs[i] != nil && !errors.Is(errs[i], agent.ErrNoAgent) {
			fmt.Fprintf(cli.stderr, "weir: node %s: %v\n", nodes[i], errs[i])
		}
		copies = append(copies, reply.Copies...)
	}
	slices.SortStableFunc(copies, func(x, y agent.CopyLog) int { return cmp.Compare(x.Index, y.Index) })
	if cli.output == "json" {
		return cli.printJSON(copies)
	}
	for _, c := range copies {
		for _, line := range c.Lines {
			fmt.Fprintf(cli.stdout, "%s/%d %s\n", request.App, c.Index, line)
		}
	}
	if len(copies) == 0 {
		what := request.App
		if request.Index != nil {
			what = fmt.Sprintf("%s/%d", request.App, *request.Index)
		}
		return fmt.Errorf("no node of pool %s has output of %s; \"weir app status %s\" shows where it runs", cli.pool, what, request.App)
	}
	return nil
}

// nodesOf returns the nodes of the pool, as its provider knows them now.
func (cli *cli) nodesOf(ctx context.Context, b *bus.Bus) ([]string, error) {
	data, err := cli.dataDir()
	if err != nil {
		return nil, err
	}
	dir := cli.configs()
	if cli.configDir == "" {
		dir = upConfigs(data)
	}
	_, pool, err := config.Load(dir, cli.cluster, cli.pool)
	if err != nil {
		return nil, &usageError{err}
	}
	var nodes []string
	for _, g := range pool.Groups {
		s, err := local.NewGroup(b.Conn(), cli.cluster, cli.pool, g.Local.Name).Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		for _, i := range s.Instances {
			nodes = append(nodes, i.ID)
		}
	}
	return nodes, nil
}

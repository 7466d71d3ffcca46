package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// Periods of "weir app logs --follow".
const (
	readEvery = time.Second // between two requests for new output
	seekEvery = 2           // requests, after which it searches for instances on further nodes
)

func (cli *commands) logsCommand() *cobra.Command {
	var index, lines int
	var follow bool
	cmd := &cobra.Command{
		Use:     "logs NAME",
		Aliases: []string{"log"},
		Short:   "Print the last output of an application's instances, also of ended ones",
		Long: `Print the last output of an application's instances, also of ended ones.

With --follow the command goes on with the new output until Ctrl-C: also that of
instances that start later, on any node of the pool. It continues after a restart of
an agent, and after a connection to the bus was lost.`,
		Example: `  weir app logs web
  weir app logs web --index 3 --lines 100
  weir app logs web --follow`,
		Args: requireApp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 0 {
				return usage.New(fmt.Errorf("--lines %d: want at least 0", lines))
			}
			request := wire.LogsRequest{App: args[0], Lines: lines}
			if cmd.Flags().Changed("index") {
				if index < 0 {
					return usage.New(fmt.Errorf("--index %d: want at least 0", index))
				}
				request.Index = &index
			}
			if follow { // until Ctrl-C: each of its requests has a deadline of its own
				return cli.OnBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.followLogs(ctx, b, request) })
			}
			return cli.WithBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.logs(ctx, b, request) })
		},
	}
	cmd.Flags().IntVar(&index, "index", 0, "this index only")
	cmd.Flags().IntVar(&lines, "lines", 10, "lines of each instance, besides how it ended; 0 prints all stored lines")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new output until Ctrl-C")
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) logs(ctx context.Context, b *bus.Bus, request wire.LogsRequest) error {
	nodes, err := cli.Reader(b).Agents(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, view.Timeout)
	defer cancel()
	client := wire.NewClient(b.Conn(), cli.Cluster, cli.Pool)
	replies := make([]wire.LogsReply, len(nodes))
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() { replies[i], errs[i] = client.Logs(ctx, node, request) })
	}
	wg.Wait()
	copies := []wire.CopyLog{}
	for i, reply := range replies {
		if errs[i] != nil && !errors.Is(errs[i], wire.ErrNoAgent) {
			fmt.Fprintf(cli.Stderr, "weir: node %s: %v\n", nodes[i], errs[i])
		}
		copies = append(copies, reply.Copies...)
	}
	sortByIndex(copies)
	if cli.Output == "json" {
		return cli.PrintJSON(copies)
	}
	for _, c := range copies {
		if err := cli.printOutput(request.App, c); err != nil {
			return err
		}
	}
	if len(copies) == 0 {
		if _, _, err := readApp(ctx, b, cli.Cluster, request.App); errors.Is(err, errNoApp) {
			return err
		}
		return fmt.Errorf("no node of pool %s has output of %s; \"weir app status %s\" shows where it runs", cli.Pool, titleOf(request), request.App)
	}
	if !slices.ContainsFunc(copies, func(c wire.CopyLog) bool { return len(c.Lines) > 0 }) {
		fmt.Fprintf(cli.Stderr, "weir: %s has written nothing yet\n", titleOf(request))
	}
	return nil
}

func sortByIndex(copies []wire.CopyLog) {
	slices.SortStableFunc(copies, func(x, y wire.CopyLog) int { return cmp.Compare(x.Index, y.Index) })
}

// titleOf returns the app of a request, with its index.
func titleOf(request wire.LogsRequest) string {
	if request.Index == nil {
		return request.App
	}
	return fmt.Sprintf("%s/%d", request.App, *request.Index)
}

// printOutput prints the lines of an instance. A line of an agent stays one line.
func (cli *commands) printOutput(app string, c wire.CopyLog) error {
	for _, line := range c.Lines {
		if _, err := fmt.Fprintf(cli.Stdout, "%s/%d %s\n", app, c.Index, strings.ReplaceAll(line, "\n", `\n`)); err != nil {
			return fmt.Errorf("print the output of %s/%d: %w", app, c.Index, err)
		}
	}
	return nil
}

// followLogs prints the last output, and then the new output until ctx ends.
func (cli *commands) followLogs(ctx context.Context, b *bus.Bus, request wire.LogsRequest) error {
	nodes, err := cli.Reader(b).Agents(ctx)
	if err != nil {
		return err
	}
	f := wire.NewFollower(wire.NewClient(b.Conn(), cli.Cluster, cli.Pool), request)
	troubles := map[string]string{} // by node, as printed
	again := time.NewTicker(readEvery)
	defer again.Stop()
	for round := 0; ; round++ {
		copies, failed := f.Read(ctx, nodes)
		if ctx.Err() != nil {
			return nil
		}
		cli.printTroubles(troubles, failed)
		if err := cli.printNew(request, copies); err != nil {
			return err
		}
		if round == 0 && len(copies) == 0 {
			if _, _, err := readApp(ctx, b, cli.Cluster, request.App); errors.Is(err, errNoApp) {
				return err
			}
			fmt.Fprintf(cli.Stderr, "weir: no node of pool %s has output of %s yet: waiting for it\n", cli.Pool, titleOf(request))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
		if round%seekEvery == 0 {
			nodes = cli.nodesWith(ctx, b, request.App, nodes)
		}
	}
}

// printNew prints new output. As JSON or YAML it prints each part as a value.
func (cli *commands) printNew(request wire.LogsRequest, copies []wire.CopyLog) error {
	sortByIndex(copies)
	for _, c := range copies {
		if cli.Output == "json" {
			if err := cli.PrintNext(c); err != nil {
				return err
			}
			continue
		}
		if c.Lost {
			fmt.Fprintf(cli.Stderr, "weir: %s/%d: some lines are missing here: it writes faster than they were read\n", request.App, c.Index)
		}
		if err := cli.printOutput(request.App, c); err != nil {
			return err
		}
	}
	return nil
}

// printTroubles prints which nodes stopped to answer, and which answer again.
func (cli *commands) printTroubles(printed map[string]string, failed map[string]error) {
	for _, node := range slices.Sorted(maps.Keys(failed)) {
		text := failed[node].Error()
		if errors.Is(failed[node], wire.ErrNoAgent) {
			text = wire.ErrNoAgent.Error()
		}
		if printed[node] != text {
			printed[node] = text
			fmt.Fprintf(cli.Stderr, "weir: node %s: %s; waiting for it\n", node, text)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(printed)) {
		if failed[node] == nil {
			delete(printed, node)
			fmt.Fprintf(cli.Stderr, "weir: node %s answers again\n", node)
		}
	}
}

// nodesWith returns the nodes on which the harmonizer has an instance or a crash of the app. If it does not answer,
// or if its answer is not whole, they are all nodes of the pool, or those of before.
func (cli *commands) nodesWith(ctx context.Context, b *bus.Bus, app string, before []string) (nodes []string) {
	s, err := requestHarmonizer(ctx, b, cli.Cluster, api.HarmonizerQuery{App: app, Crashes: true})
	if errors.Is(err, errNoApp) { // deleted: what still runs is followed
		return nil
	}
	if err != nil || s.App == nil || s.App.Omitted > 0 {
		if nodes, err = cli.Reader(b).Agents(ctx); err != nil {
			return before
		}
		return nodes
	}
	for _, index := range s.App.Indices {
		for _, c := range index.Instances {
			if c.Pool == cli.Pool {
				nodes = append(nodes, c.Node)
			}
		}
	}
	for _, c := range s.Crashes {
		if c.Pool == cli.Pool {
			nodes = append(nodes, c.Node)
		}
	}
	nodes = slices.DeleteFunc(nodes, func(node string) bool { return node == "" })
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

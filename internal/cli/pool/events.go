package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

func (cli *tickCommands) eventsCommand() *cobra.Command {
	var r eventRange
	cmd := &cobra.Command{
		Use:   "events [POOL]",
		Short: "Print the events of a pool",
		Long: `Print the events of a pool: decisions that changed something, changes of the
configuration, orders, and findings of node health and of the harmonizer. The findings
of the harmonizer are those of all pools of the cluster. Findings are stored for 90
days, the others as long as the summaries of the ticks. Without --since and --follow they
are those of the last hour.

Repeated events of the past of one application or node, and equal findings of the pool or
the cluster, are one line, at the time of the last one: "api crashed 37 times in 2 min,
exit 1". --all prints a line for each event, with
all fields of its finding. --output json and yaml print each event, as does --follow.`,
		Example: `  weir events
  weir events --since 8h
  weir events --since 1h --app api --all
  weir events web --follow --kind health,harmonizer --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cli.PoolArg(cmd, args); err != nil {
				return err
			}
			for _, kind := range r.kinds {
				if all := api.EventKinds(); !slices.Contains(all, kind) {
					return usage.New(fmt.Errorf("--kind %q: want %s%s", kind, strings.Join(all, ", "), spelling.DidYouMean(kind, all)))
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.since == 0 && !r.follow {
				r.since = time.Hour
				fmt.Fprintln(cli.Stderr, "weir: events of the last hour; --since chooses another range, and --follow prints new ones")
			}
			return cli.OnBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error {
				return cli.events(ctx, b, r)
			})
		},
	}
	cmd.Flags().StringVar(&r.app, "app", "", "only those of this application")
	cmd.Flags().StringVar(&r.node, "node", "", "only those of this node")
	cmd.Flags().StringSliceVar(&r.kinds, "kind", nil, "only these kinds: "+strings.Join(api.EventKinds(), ", "))
	command.SinceVar(cmd.Flags(), &r.since, "since", 0, "events since then")
	cmd.Flags().BoolVar(&r.all, "all", false, "a line for each event, also for repeated ones, with all fields")
	cmd.Flags().BoolVarP(&r.follow, "follow", "f", false, "continue with new events until Ctrl-C")
	cli.OutputFlag(cmd)
	return cmd
}

// checkEvents returns an error unless the pool has ticked. If its new events are printed, a pool file suffices. The
// events of the harmonizer do not depend on the pool, so without the check an unknown pool has events too.
func (cli *tickCommands) checkEvents(ctx context.Context, b *bus.Bus, follow bool) error {
	ctx, cancel := context.WithTimeout(ctx, cli.Timeout)
	defer cancel()
	list := func(ctx context.Context) ([]string, error) { return state.Pools(ctx, b.JetStream(), cli.Cluster) }
	if follow {
		list = cli.Fleet(b).Pools
	}
	known, err := list(ctx)
	if err != nil || slices.Contains(known, cli.Pool) {
		return err
	}
	return view.NoTick(ctx, b, cli.Cluster, cli.Pool)
}

// eventRange is which events are printed, and how.
type eventRange struct {
	since       time.Duration
	follow, all bool
	kinds       []string // empty: all kinds
	app, node   string   // empty: any, or none
}

// events prints the events of the past, and then the new ones. It subscribes first, so that none is lost between.
func (cli *tickCommands) events(ctx context.Context, b *bus.Bus, r eventRange) error {
	if err := cli.checkEvents(ctx, b, r.follow); err != nil {
		return err
	}
	feed := history.NewFeed(cli.Cluster)
	var in *bus.Inbox
	if r.follow {
		log, err := cli.Logger()
		if err != nil {
			return err
		}
		if in, err = bus.Receive(b.Conn(), bus.InboxConfig{Events: history.Subjects(cli.Cluster, cli.Pool), Messages: 1024, Bytes: 32 << 20, Log: log}); err != nil {
			return fmt.Errorf("follow the events of pool %s: %w", cli.Pool, err)
		}
		defer in.Close()
	}
	each := r.all || cli.Output == command.FormJSON
	show := func(e api.Event) error { return cli.printEvent(e, each) }
	if r.since > 0 {
		if err := cli.pastEvents(ctx, b, feed, r, each, show); err != nil {
			return err
		}
	}
	for r.follow {
		select {
		case <-ctx.Done():
			return nil
		case m, ok := <-in.Messages():
			if !ok {
				return nil
			}
			live, err := feed.Read(time.Now(), m)
			if err != nil {
				fmt.Fprintf(cli.Stderr, "weir: an event is omitted: %v\n", err)
				continue
			}
			if err := r.visit(live.Events, show); err != nil {
				return err
			}
		}
	}
	return nil
}

// visit calls do with each event of the kinds, the application and the node.
func (r eventRange) visit(events []api.Event, do func(api.Event) error) error {
	for _, e := range events {
		app, node := history.EventObject(e)
		if len(r.kinds) > 0 && !slices.Contains(r.kinds, string(e.Kind)) || r.app != "" && r.app != app || r.node != "" && r.node != node {
			continue
		}
		if err := do(e); err != nil {
			return err
		}
	}
	return nil
}

// pastEvents prints the events of the past: each as it is read, or folded at the end.
func (cli *tickCommands) pastEvents(ctx context.Context, b *bus.Bus, feed *history.Feed, r eventRange, each bool, show func(api.Event) error) error {
	var fold history.Fold
	if !each {
		show = func(e api.Event) error { fold.Add(e); return nil }
	}
	patient, handle, cancel := patient(ctx, cli.Timeout)
	now, found := time.Now(), false
	skipped, err := feed.Events(patient, cli.history(b), now.Add(-r.since), now, func(_ time.Time, events []api.Event) error {
		return handle(func() error { return r.visit(events, func(e api.Event) error { found = true; return show(e) }) })
	})
	cancel()
	for _, e := range fold.Rows() {
		if err := cli.printFolded(fmt.Sprintf("%s (%s ago)", explain.Time(e.At), explain.Ago(now, e.At)), *e); err != nil {
			return err
		}
	}
	cli.reportSkipped(skipped)
	if err != nil {
		return waited(patient, err)
	}
	if last, _ := feed.Last(cli.Pool); last.IsZero() && !r.follow {
		return cli.noTickSince(ctx, b, r.since)
	}
	if !found {
		fmt.Fprintf(cli.Stderr, "weir: pool %s/%s has no event%s in the last %s\n", cli.Cluster, cli.Pool, r.chosen(), condition.Duration(r.since))
	}
	return nil
}

// chosen names the chosen events: " of kind order of app web".
func (r eventRange) chosen() (text string) {
	if len(r.kinds) > 0 {
		text += " of kind " + strings.Join(r.kinds, " or ")
	}
	return text + cell.After(" of app ", r.app) + cell.After(" of node ", r.node)
}

// printEvent prints one event: a line, or a document. A full line has all fields of a finding.
func (cli *tickCommands) printEvent(e api.Event, full bool) error {
	switch {
	case cli.Output == command.FormJSON:
		return cli.PrintNext(e)
	case full:
		return cli.printLine(explain.Time(e.At), e, e.Text)
	}
	var one history.Fold
	one.Add(e)
	return cli.printFolded(explain.Time(e.At), *one.Rows()[0])
}

// printFolded prints an event behind its time, and how often it happened.
func (cli *tickCommands) printFolded(at string, e history.FoldedEvent) error {
	text := e.Text
	if e.Node != "" && !strings.Contains(text, e.Node) {
		text = e.Node + ": " + text
	}
	if times := e.Times(); times != "" && !strings.Contains(text, times) {
		text += " (" + times + ")"
	}
	return cli.printLine(at, e.Event, text)
}

func (cli *tickCommands) printLine(at string, e api.Event, text string) error {
	_, err := fmt.Fprintf(cli.Stdout, "%s %s %s: %s\n", at, e.Kind, e.Name, terminal.OneLine(text))
	return err
}

package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/cell"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

func (cli *tickCommands) eventsCommand() *cobra.Command {
	var kinds []string
	var since time.Duration
	var follow bool
	cmd := &cobra.Command{
		Use:   "events [POOL]",
		Short: "Print the events of a pool",
		Long: `Print the events of a pool: decisions that changed something, changes of the
configuration, orders, and findings of node health and of the harmonizer. The findings
of the harmonizer are those of all pools of the cluster. Findings are stored for 90
days, the others as long as the summaries of the ticks.`,
		Example: `  weir events --since 8h
  weir events web --follow --kind health,harmonizer --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cli.PoolArg(cmd, args); err != nil {
				return err
			}
			for _, kind := range kinds {
				if all := api.EventKinds(); !slices.Contains(all, kind) {
					return usage.New(fmt.Errorf("--kind %q: want %s%s", kind, strings.Join(all, ", "), spelling.DidYouMean(kind, all)))
				}
			}
			if since == 0 && !follow {
				return usage.New(errors.New("give a range of the past, such as --since 8h, or --follow"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.OnBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.events(ctx, b, since, follow, kinds) })
		},
	}
	cmd.Flags().StringSliceVar(&kinds, "kind", nil, "only these kinds: "+strings.Join(api.EventKinds(), ", "))
	command.SinceVar(cmd.Flags(), &since, "since", 0, "events since then")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue with new events until Ctrl-C")
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

// events prints the events of the past, and then the new ones. It subscribes first, so that none is lost between.
func (cli *tickCommands) events(ctx context.Context, b *bus.Bus, since time.Duration, follow bool, kinds []string) error {
	if err := cli.checkEvents(ctx, b, follow); err != nil {
		return err
	}
	feed := history.NewFeed(cli.Cluster)
	var in *bus.Inbox
	if follow {
		log, err := cli.Logger()
		if err != nil {
			return err
		}
		if in, err = bus.Receive(b.Conn(), bus.InboxConfig{Events: history.Subjects(cli.Cluster, cli.Pool), Messages: 1024, Bytes: 32 << 20, Log: log}); err != nil {
			return fmt.Errorf("follow the events of pool %s: %w", cli.Pool, err)
		}
		defer in.Close()
	}
	show := func(events []api.Event) error {
		for _, e := range events {
			if len(kinds) > 0 && !slices.Contains(kinds, string(e.Kind)) {
				continue
			}
			if err := cli.printEvent(e); err != nil {
				return err
			}
		}
		return nil
	}
	if since > 0 {
		patient, handle, cancel := patient(ctx, cli.Timeout)
		now := time.Now()
		skipped, err := feed.Events(patient, cli.history(b), now.Add(-since), now, func(_ time.Time, events []api.Event) error {
			return handle(func() error { return show(events) })
		})
		cancel()
		cli.reportSkipped(skipped)
		if err != nil {
			return waited(patient, err)
		}
		if last, _ := feed.Last(cli.Pool); last.IsZero() && !follow {
			return cli.noTickSince(ctx, b, since)
		}
	}
	for follow {
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
			if err := show(live.Events); err != nil {
				return err
			}
		}
	}
	return nil
}

// printEvent prints one event: a line, a line of JSON or a YAML document.
func (cli *tickCommands) printEvent(e api.Event) error {
	if cli.Output == command.FormJSON {
		return cli.PrintNext(e)
	}
	_, err := fmt.Fprintf(cli.Stdout, "%s %s %s: %s\n", cell.LocalTime(e.At), e.Kind, e.Name, terminal.OneLine(e.Text))
	return err
}

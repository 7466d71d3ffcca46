package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

func (cli *tickCommands) history(b *bus.Bus) history.Pool {
	return history.Pool{JS: b.JetStream(), Cluster: cli.Cluster, Pool: cli.Pool}
}

// pastFlags are the flags of "weir explain" that choose ticks of the past.
type pastFlags struct {
	at      string
	since   time.Duration
	changed bool
	summary bool
	whyNot  string
}

func (f *pastFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.at, "at", "", "the last tick at that time, such as 03:10, 2026-01-02T03:10:00Z or, for 90 minutes ago, 90m")
	command.SinceVar(cmd.Flags(), &f.since, "since", 0, "all ticks since then, oldest first, in place of the last tick")
	cmd.Flags().BoolVar(&f.changed, "changed", false, "with --since: only ticks that changed something")
	cmd.Flags().BoolVar(&f.summary, "summary", false, "with --output json or yaml: summaries in place of records")
	cmd.Flags().StringVar(&f.whyNot, "why-not", "", "up or down: what kept the pool from growing or shrinking")
}

// check returns the mistakes of a combination of flags.
func (f *pastFlags) check(cmd *cobra.Command) error {
	_, direction := history.ParseDirection(f.whyNot)
	given := cmd.Flags().Changed
	switch {
	case given("at") && given("since"):
		return usage.New(errors.New("--at names one tick and --since a range: give one of them"))
	case f.changed && !given("since"):
		return usage.New(errors.New("--changed needs a range of ticks: add --since, such as --since 8h"))
	case given("why-not") && !direction:
		return usage.New(fmt.Errorf("--why-not %q: want up or down", f.whyNot))
	case given("why-not") && given("since"):
		return usage.New(errors.New("--why-not explains one tick: use --at in place of --since"))
	}
	return nil
}

// waited returns the error of a call whose context is that of patient. It names the deadline if that ended the call.
func waited(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// reportSkipped reports summaries that this weir cannot read.
func (cli *tickCommands) reportSkipped(n int) {
	if n > 0 {
		fmt.Fprintf(cli.Stderr, "weir: %d ticks are omitted: another version of weir wrote them\n", n)
	}
}

// ticks prints the summaries of a range: a row each, or a line of JSON each.
func (cli *tickCommands) ticks(ctx context.Context, b *bus.Bus, f pastFlags) error {
	ctx, handle, cancel := patient(ctx, cli.Timeout)
	defer cancel()
	var rows [][]string
	found, now := false, time.Now()
	skipped, err := history.NewFeed(cli.Cluster).Ticks(ctx, cli.history(b), now.Add(-f.since), time.Time{}, func(t history.ComparedTick) error {
		found = true
		return handle(func() error {
			switch {
			case f.changed && !t.Changed():
				return nil
			case cli.Output == command.FormJSON:
				return cli.PrintNext(t.Summary)
			}
			rows = append(rows, tickRow(t.Summary, t.Changes, f.changed))
			return nil
		})
	})
	cli.reportSkipped(skipped)
	if err != nil {
		return waited(ctx, err)
	}
	if !found {
		return cli.noTickSince(ctx, b, f.since)
	}
	if cli.Output != command.FormJSON {
		header := []string{"time", "need", "target", "joined", "rule", "reason"}
		if f.changed {
			header = append(header, "changes")
		}
		cli.PrintTable(header, rows)
	}
	return nil
}

// noTickSince reports the last tick of a pool without ticks in a range.
func (cli *tickCommands) noTickSince(ctx context.Context, b *bus.Bus, since time.Duration) error {
	last, err := view.Last(ctx, b, cli.Cluster, cli.Pool)
	switch {
	case err == nil && time.Since(last.At) < since:
		return fmt.Errorf("no server returned the ticks of the last %s of pool %s/%s, but its last tick was at %s: run the command again", seconds.Short(since), cli.Cluster, cli.Pool, explain.When(time.Now(), last.At))
	case err == nil:
		fmt.Fprintf(cli.Stderr, "weir: pool %s/%s has no tick in the last %s: its last tick was at %s\n", cli.Cluster, cli.Pool, seconds.Short(since), explain.When(time.Now(), last.At))
	}
	return err
}

// tickRow returns the row of one tick.
func tickRow(s api.Summary, changes []api.Change, changed bool) []string {
	target, need, reason := "-", "-", s.Why
	if before, after, ok := s.Ordered(); ok {
		if target = explain.Number(after); before != after {
			target = explain.Number(before) + " -> " + target
		}
	}
	if s.Unlimited != nil {
		need = explain.Number(*s.Unlimited)
	}
	joined := explain.Number(s.Joined)
	switch {
	case s.Paused != nil:
		reason, joined = "paused "+explain.Note(*s.Paused), "-"
	case s.Failed != "":
		reason, joined = "! "+s.Failed, "-"
	case s.DryRun:
		reason = "dry run: " + reason
	}
	row := []string{explain.Time(s.At), need, target, joined, string(s.Rule), reason}
	if changed {
		var texts []string
		for _, c := range changes {
			texts = append(texts, c.String())
		}
		row = append(row, strings.Join(texts, "; "))
	}
	return row
}

// explainTick prints one tick: the last one, or that of --at. Without a record it prints the summary.
func (cli *tickCommands) explainTick(ctx context.Context, b *bus.Bus, f pastFlags) error {
	t, err := cli.tick(ctx, b, f.at)
	if err != nil {
		return err
	}
	switch {
	case f.whyNot != "":
		return cli.printHolds(t, f.whyNot)
	case f.summary && cli.Output == command.FormJSON, t.Record == nil && cli.Output == command.FormJSON:
		return cli.PrintNext(t.Summary)
	case cli.Output == command.FormJSON:
		return cli.PrintNext(t.Record)
	case t.Record == nil || f.summary:
		cli.PrintTable([]string{"time", "need", "target", "joined", "rule", "reason"}, [][]string{tickRow(t.Summary, nil, false)})
		if t.Record == nil {
			fmt.Fprintln(cli.Stderr, "weir: the ledger no longer has the record of this tick: this is its summary")
		}
		return nil
	}
	cli.printTick(*t.Record)
	return nil
}

// tick reads the tick of a time as a person writes it; empty: the last one.
func (cli *tickCommands) tick(ctx context.Context, b *bus.Bus, at string) (t history.Tick, err error) {
	if at == "" || at == "last" {
		r, err := view.Last(ctx, b, cli.Cluster, cli.Pool)
		if err == nil {
			t = history.Tick{Summary: history.SummaryOf(r), Record: &r}
		}
		return t, err
	}
	now := time.Now()
	when, err := command.ParseTime(at, now)
	switch {
	case err != nil:
		return t, usage.New(fmt.Errorf("tick %.80q: %w", at, err))
	case when.After(now):
		return cli.tick(ctx, b, "last")
	}
	ctx, cancel := context.WithTimeout(ctx, cli.Timeout)
	defer cancel()
	if t, err = cli.history(b).TickAt(ctx, when); errors.Is(err, history.ErrNoTick) {
		if _, last := view.Last(ctx, b, cli.Cluster, cli.Pool); last != nil {
			return t, last // the pool has no tick at all
		}
	}
	return t, err
}

// printTick prints a tick: one sentence, and then its record.
func (cli *tickCommands) printTick(r api.TickRecord) {
	s := history.SummaryOf(r)
	fmt.Fprintf(cli.Stdout, "%s\n\n", condition.Sentence(r.At, &s, condition.Facts{}))
	explain.Record(cli.Stdout, r, time.Now())
}

// printHolds prints what kept the pool from going in one direction.
func (cli *tickCommands) printHolds(t history.Tick, direction string) error {
	d, _ := history.ParseDirection(direction)
	h := history.HeldOf(t.Summary, d)
	if cli.Output == command.FormJSON {
		return cli.PrintNext(h)
	}
	fmt.Fprintf(cli.Stdout, "pool %s/%s, tick of %s", cli.Cluster, cli.Pool, explain.When(time.Now(), t.At))
	if before, after, ok := t.Ordered(); ok {
		fmt.Fprintf(cli.Stdout, ": target %s -> %s by rule %s: %s", explain.Number(before), explain.Number(after), t.Rule, t.Why)
	}
	fmt.Fprintln(cli.Stdout)
	if len(h.Holds) == 0 {
		verb := map[api.Direction]string{api.DirectionUp: "grow", api.DirectionDown: "shrink"}[d]
		fmt.Fprintf(cli.Stdout, "It should not %s. %s\n", verb, condition.Sentence(t.At, &t.Summary, condition.Facts{}))
		return nil
	}
	fmt.Fprintf(cli.Stdout, "what kept it from going %s:\n", direction)
	var rows [][]string
	for _, one := range h.Holds {
		rows = append(rows, []string{string(one.Kind), one.Name, one.Why})
	}
	cli.PrintTable([]string{"kind", "name", "reason"}, rows)
	return nil
}

func (cli *tickCommands) diffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff [POOL] TICK TICK",
		Short: "Compare two ticks of a pool",
		Long: `Compare two ticks of a pool: targets, limits, requests, signals, groups, orders, and
what held the pool. A tick is a time, which means the last tick that began by then, or
"last". The pool is the first of three arguments.`,
		Example: `  weir diff 03:10 last
  weir diff default 2026-01-02T03:10:00Z 2026-01-02T04:10:00Z --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 2:
				return nil
			case 3:
				return cli.UsePool(cmd, args[0])
			}
			return usage.New(fmt.Errorf("%s wants two ticks, and a pool before them, but got %d arguments\nSee %q", cmd.CommandPath(), len(args), cmd.CommandPath()+" --help"))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.OnBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.diff(ctx, b, args[len(args)-2:]) })
		},
	}
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *tickCommands) diff(ctx context.Context, b *bus.Bus, ticks []string) error {
	var both [2]history.Tick
	now := time.Now()
	for i, at := range ticks {
		var err error
		if both[i], err = cli.tick(ctx, b, at); err != nil {
			return err
		}
	}
	changes := history.DiffSummaries(both[0].Summary, both[1].Summary)
	if cli.Output == command.FormJSON {
		return cli.PrintJSON(struct {
			Pool    string       `json:"pool"`
			From    time.Time    `json:"from"`
			To      time.Time    `json:"to"`
			Changes []api.Change `json:"changes"`
		}{cli.Pool, both[0].At, both[1].At, append([]api.Change{}, changes...)})
	}
	fmt.Fprintf(cli.Stdout, "pool %s/%s, ticks of %s, and of %s\n", cli.Cluster, cli.Pool, explain.When(now, both[0].At), explain.When(now, both[1].At))
	if len(changes) == 0 {
		fmt.Fprintln(cli.Stdout, "no differences")
		return nil
	}
	var rows [][]string
	for _, c := range changes {
		rows = append(rows, []string{c.What, c.From, c.To})
	}
	cli.PrintTable([]string{"what", "from", "to"}, rows)
	return nil
}

// patient returns a context that ends when nothing was received for the timeout. The caller
// passes to handle what it does with each thing that it received: that time does not count.
func patient(ctx context.Context, timeout time.Duration) (waiting context.Context, handle func(do func() error) error, cancel context.CancelFunc) {
	waiting, end := context.WithCancelCause(ctx)
	clock := time.AfterFunc(timeout, func() { end(context.DeadlineExceeded) })
	handle = func(do func() error) error {
		clock.Stop()
		defer clock.Reset(timeout)
		return do()
	}
	return waiting, handle, func() { clock.Stop(); end(nil) }
}

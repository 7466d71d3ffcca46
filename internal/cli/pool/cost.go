package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/price"
)

func (cli *tickCommands) costCommand(savings Savings) *cobra.Command {
	var since time.Duration
	var top bool
	var from string
	cmd := &cobra.Command{
		Use:   "cost [POOL]",
		Short: "Print what a pool cost, by group, market and cause",
		Long: `Print what a pool cost, by group, market and cause: the machine-hours of each, and their price.

The causes are serving (the requests of the signals need the machine), headroom (it is kept for free
places), waiting to join, draining, roll, repair, and held: no request needs the machine, and a rule of
the decision keeps it, such as cooldown or min_capacity.

The command adds up the summaries of the ticks, which have the prices of their time: prices.table of
weir.yaml names them. It lists times that the bill lacks, such as a pause. The unit and the minimum
of a bill of the provider do not count.

With --top the command replays the recorded ticks with the policy of the pool's file, and with changes of
it that let the pool have fewer machines. It prints the three that would have saved most, with the demand
that no machine did.`,
		Example: `  weir cost
  weir cost default --since 30d
  weir cost --since 30d --output json
  weir cost --since 7d --top`,
		Args: cli.PoolArg,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case top:
				return savings(cmd.Context(), cli.CLI, from, since)
			case from != "":
				return usage.New(errors.New("--from names the records of --top: add --top"))
			}
			return cli.OnBus(cmd.Context(), func(ctx context.Context, b *bus.Bus) error { return cli.cost(ctx, b, since) })
		},
	}
	command.SinceVar(cmd.Flags(), &since, "since", 24*time.Hour, "the ticks since then")
	cmd.Flags().StringVar(&from, "from", "", "with --top: a `FILE` of records, as \"weir explain --since 1h --output json\" prints them")
	cmd.Flags().BoolVar(&top, "top", false, "print the changes of the policy that would have saved most")
	cli.OutputFlag(cmd)
	return cmd
}

// shownGaps bounds the printed times that a bill lacks.
const shownGaps = 10

func (cli *tickCommands) cost(ctx context.Context, b *bus.Bus, since time.Duration) error {
	waiting, handle, cancel := patient(ctx, cli.Timeout)
	defer cancel()
	now := time.Now()
	var billing history.Billing
	skipped, err := cli.history(b).Summaries(waiting, now.Add(-since), time.Time{}, func(s api.Summary) error {
		return handle(func() error { billing.Add(s); return nil })
	})
	cli.reportSkipped(skipped)
	if err != nil {
		return waited(waiting, err)
	}
	bill, ok := billing.Bill(now)
	switch {
	case !ok:
		return cli.noTickSince(ctx, b, since)
	case cli.Output != command.FormTable:
		return cli.PrintJSON(bill)
	}
	var rows [][]string
	for _, p := range bill.Parts {
		cost, share := "unknown", ""
		if p.Cost != nil {
			cost = explain.Money(*p.Cost)
			if bill.Cost > 0 {
				share = fmt.Sprintf("%.1f %%", 100**p.Cost/bill.Cost)
			}
		}
		rows = append(rows, []string{p.Group, p.Market, p.Cause.Text(p.Rule), explain.Money(p.Hours), cost, share})
	}
	if rows != nil {
		cli.PrintTable([]string{"group", "market", "cause", "machine-hours", "cost", "share"}, rows)
		cli.printTotal(bill)
	}
	for _, g := range bill.Gaps[:min(len(bill.Gaps), shownGaps)] {
		fmt.Fprintf(cli.Stdout, "! %s are not in the bill, from %s to %s: %s\n", seconds.Short(g.To.Sub(g.From).Round(time.Second)), explain.Time(g.From), explain.Time(g.To), g.Why)
	}
	if more := len(bill.Gaps) - shownGaps; more > 0 {
		fmt.Fprintf(cli.Stdout, "! and %d more such times; --output json has all\n", more)
	}
	if rows == nil {
		return errors.New("no machine-hour has a price: name a price file with prices.table in weir.yaml, which \"weir prices\" writes")
	}
	return nil
}

// printTotal prints the sum. Without a price of a market it is a lower bound.
func (cli *tickCommands) printTotal(bill api.Bill) {
	least := ""
	markets, hours := bill.Unpriced()
	if markets != nil {
		least = "at least "
	}
	fmt.Fprintf(cli.Stdout, "%s%s %s for %s machine-hours, %s to %s\n", least, explain.Money(bill.Cost), bill.Currency, explain.Money(bill.Hours), explain.Time(bill.From), explain.Time(bill.To))
	if markets != nil {
		fmt.Fprintf(cli.Stdout, "! %s machine-hours are not in the sum: %s\n", explain.Money(hours), price.Missing(bill.Files, markets...))
	}
}

// printCosts prints the cost of an hour of each group, and their sum.
func (cli *tickCommands) printCosts(rows []api.GroupCost, assumed bool) {
	if rows == nil {
		return
	}
	header := []string{"group", "market", "an hour now", "by the plan"}
	if assumed {
		header = append(header, "with other prices")
	}
	sum := api.GroupCost{Group: "all", Market: "-"}
	var table [][]string
	add := func(r api.GroupCost) {
		row := []string{r.Group, r.Market, fmt.Sprintf("%.4f", r.Now), fmt.Sprintf("%.4f", r.Plan)}
		if assumed {
			row = append(row, fmt.Sprintf("%.4f", r.Assumed))
		}
		table = append(table, row)
	}
	for _, r := range rows {
		sum.Now, sum.Plan, sum.Assumed = sum.Now+r.Now, sum.Plan+r.Plan, sum.Assumed+r.Assumed
		add(r)
	}
	add(sum)
	fmt.Fprintln(cli.Stdout)
	cli.PrintTable(header, table)
}

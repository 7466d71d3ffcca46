package simulation

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// shownSavings bounds the printed changes.
const shownSavings = 3

// largestSetpoint bounds a proposed setpoint: above it, a pool has almost no reserve for a machine that is lost.
const largestSetpoint = 0.9

// proposals returns the changes of a policy that lower its cost: each lets the pool have fewer machines, or lose them sooner.
func proposals(c simulate.Policy) (all []config.Assignment) {
	number := func(key string, x float64) {
		all = append(all, config.Assignment{Key: key, Value: strconv.FormatFloat(x, 'f', -1, 64)})
	}
	p := c.Policy
	if next := min(p.Setpoint+0.1, largestSetpoint); next > p.Setpoint+resource.Slack {
		number("autoscaling.setpoint", float64(int(next*100+0.5))/100)
	}
	if p.MarginDown > 0 {
		number("autoscaling.margin_down", p.MarginDown/2)
	}
	if p.Cooldown.Down > 0 {
		all = append(all, config.Assignment{Key: "autoscaling.cooldown.down", Value: (p.Cooldown.Down / 2).String()})
	}
	if p.LossLimit {
		all = append(all, config.Assignment{Key: "autoscaling.prevent_scale_down_after_capacity_loss", Value: "false"})
	}
	if half := float64(int(p.Limits.Min / 2)); half < p.Limits.Min {
		number("scaling_limits.min_capacity", half)
	}
	if remove := p.Limits.MaxRemove; remove > 0 && remove < api.Unlimited/2 {
		number("scaling_limits.max_weight_to_remove", 2*remove)
	}
	return all
}

// Savings replays the records of a pool since then, or those of a file, with the policy of its file, and with each of the proposals. It prints those that
// would have saved most.
func Savings(ctx context.Context, cli *connect.CLI, file string, since time.Duration) error {
	configs, _ := cli.RunningConfigs()
	service, err := config.LoadService(configs)
	if err != nil {
		return usage.New(err)
	}
	base, err := scenario{}.readPool(filepath.Join(configs, cli.Cluster, cli.Pool+".yaml"))
	if err != nil {
		return usage.New(err)
	}
	p, err := readPast(ctx, cli, file, since)
	if err != nil {
		return err
	}
	var prices *price.Prices
	if service.Prices != nil {
		if prices, err = service.Prices.Read(); err != nil {
			return usage.New(err)
		}
	}
	out, err := savings(ctx, p, base, prices)
	if err != nil {
		return err
	}
	out.Cluster, out.Pool = cli.Cluster, cli.Pool
	return printSavings(cli, out)
}

// savings simulates the policy and each of its proposals, with the same luck. Without a price of each market it compares the
// machine-hours.
func savings(ctx context.Context, p *past, base policy, prices *price.Prices) (out api.Savings, err error) {
	changes := append([]config.Assignment{{}}, proposals(base.config)...)
	scenarios := make([]simulate.Scenario, len(changes))
	for i, change := range changes {
		one := base
		if i > 0 {
			if one, err = (scenario{}).readPool(base.path, change); err != nil {
				return out, err
			}
		}
		if _, scenarios[i], err = p.Judge(one.config); err != nil {
			return out, err
		}
		if scenarios[i].Prices = prices; prices != nil && scenarios[i].Validate() != nil {
			prices = nil
		}
	}
	results := make([]simulate.Result, len(scenarios))
	running, ctx := errgroup.WithContext(ctx)
	running.SetLimit(runtime.GOMAXPROCS(0))
	for i := range scenarios {
		scenarios[i].Prices = prices
		running.Go(func() (err error) {
			if err = scenarios[i].Validate(); err == nil {
				results[i], err = simulate.Run(ctx, scenarios[i])
			}
			return err
		})
	}
	if err := running.Wait(); err != nil {
		return out, err
	}
	now := results[0]
	out = api.Savings{From: now.From, To: now.To, Ticks: now.Ticks, Unit: "machine-hours", Cost: now.Existed, Notes: notes(p.Notes(), p.unreadable)}
	if prices != nil {
		out.Unit, out.Cost = prices.Currency, now.Cost.Float()
	}
	for i, r := range results[1:] {
		saved := now.Existed - r.Existed
		if prices != nil {
			saved = now.Cost.Float() - r.Cost.Float()
		}
		out.Changes = append(out.Changes, api.Saving{
			Key: changes[i+1].Key, Value: changes[i+1].Value, Saved: saved,
			UnmetBefore: unmetShare(now), Unmet: unmetShare(r), Waited: r.Waited,
		})
	}
	slices.SortStableFunc(out.Changes, func(a, b api.Saving) int { return cmp.Compare(b.Saved, a.Saved) })
	return out, nil
}

// unmetShare returns the largest share of a resource's demand that no machine did.
func unmetShare(r simulate.Result) (share float64) {
	for _, k := range resource.Kinds() {
		if r.Wanted[k] > 0 {
			share = max(share, r.Unmet[k]/r.Wanted[k])
		}
	}
	return share
}

func printSavings(cli *connect.CLI, out api.Savings) error {
	if cli.Output != command.FormTable {
		return cli.PrintJSON(out)
	}
	var rows [][]string
	for _, c := range out.Changes[:min(len(out.Changes), shownSavings)] {
		if c.Saved <= 0 {
			break
		}
		rows = append(rows, []string{
			c.Key + "=" + c.Value, fmt.Sprintf("%.4g %s", c.Saved, out.Unit), fmt.Sprintf("%.1f %%", 100*c.Saved/out.Cost),
			fmt.Sprintf("%.2f %% -> %.2f %%", 100*c.UnmetBefore, 100*c.Unmet), seconds.Short(c.Waited.Round(time.Second)),
		})
	}
	if rows != nil {
		cli.PrintTable([]string{"change", "saved", "share", "unmet demand", "longest wait"}, rows)
	}
	fmt.Fprintf(cli.Stdout, "pool %s/%s, %d ticks from %s to %s cost %.4g %s with the policy of its file\n", out.Cluster, out.Pool, out.Ticks, stamp(out.From), stamp(out.To), out.Cost, out.Unit)
	for _, note := range out.Notes {
		fmt.Fprintln(cli.Stdout, note)
	}
	if rows == nil {
		fmt.Fprintln(cli.Stdout, "none of the changes that were tried would have saved anything; --output json lists them")
	}
	return nil
}

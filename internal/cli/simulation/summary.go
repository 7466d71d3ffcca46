package simulation

import (
	"fmt"
	"math"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// summaries returns a row for each policy.
func summaries(s scenario, policies []policy, results [][]simulate.Result) []api.Simulated {
	out := make([]api.Simulated, len(policies))
	for i, p := range policies {
		out[i] = summary(results[i])
		out[i].Policy = p.name
		if s.prices != nil {
			out[i].Currency = s.prices.Currency
		} else {
			out[i].Cost = nil
		}
	}
	for i := range out {
		for k := range out {
			if beats(out[k], out[i]) {
				out[i].Dominated = out[k].Policy
				break
			}
		}
	}
	return out
}

// beats reports whether a costs less than b, with less unmet demand.
func beats(a, b api.Simulated) bool {
	return a.Cost != nil && b.Cost != nil && a.Cost.Mean < b.Cost.Mean && a.Unmet.Mean < b.Unmet.Mean
}

func summary(results []simulate.Result) api.Simulated {
	n := float64(len(results))
	out := api.Simulated{Seeds: len(results), From: results[0].From, To: results[0].To}
	var cost, unmet []float64
	offered := 0.0
	for _, r := range results {
		cost, unmet = append(cost, r.Cost.Float()), append(unmet, r.Unmet[resource.CPUs])
		out.Wanted += r.Wanted[resource.CPUs] / n
		offered += r.Offered[resource.CPUs] / n
		out.Waited = max(out.Waited, r.Waited.Seconds())
		for _, m := range r.Markets {
			out.Hours += m.Hours / n
		}
		out.Changes += float64(r.Changes) / n
		out.Launches += float64(r.Launches) / n
		out.Interrupted += float64(r.Interrupted) / n
		out.Failed += r.Failed
		if r.To.Before(out.To) {
			out.To = r.To
		}
	}
	out.Cost, out.Unmet = new(estimate(cost)), estimate(unmet)
	if out.Wanted > 0 {
		out.UnmetShare = out.Unmet.Mean / out.Wanted
	}
	if offered > 0 {
		out.Used = (out.Wanted - out.Unmet.Mean) / offered
	}
	return out
}

// student has the 97.5th percentiles of the t distribution, by degrees of freedom from 1 on.
var student = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
}

// estimate returns the mean and half of the width of its 95 % interval.
func estimate(xs []float64) (e api.Estimate) {
	n := float64(len(xs))
	for _, x := range xs {
		e.Mean += x / n
	}
	if len(xs) < 2 {
		return e
	}
	squares := 0.0
	for _, x := range xs {
		squares += (x - e.Mean) * (x - e.Mean)
	}
	t := 1.96
	if free := len(xs) - 1; free <= len(student) {
		t = student[free-1]
	}
	e.Half = t * math.Sqrt(squares/(n-1)/n)
	return e
}

// print prints the rows.
func (cli *commands) print(rows []api.Simulated) error {
	if cli.Output != "table" {
		return cli.PrintJSON(rows)
	}
	table := make([][]string, len(rows))
	for i, r := range rows {
		cost := "unknown"
		if r.Cost != nil {
			cost = text(*r.Cost, r.Seeds) + " " + r.Currency + difference(r.Cost.Mean, rows[0].Cost.Mean, i)
		}
		name := r.Policy
		if r.Dominated != "" {
			name += " (beaten by " + r.Dominated + ")"
		}
		table[i] = []string{
			name, cost, text(r.Unmet, r.Seeds) + difference(r.Unmet.Mean, rows[0].Unmet.Mean, i), fmt.Sprintf("%.2f %%", 100*r.UnmetShare),
			seconds.Short(time.Duration(r.Waited * float64(time.Second)).Round(time.Second)), fmt.Sprintf("%.1f %%", 100*r.Used),
			fmt.Sprintf("%.0f", r.Changes), fmt.Sprintf("%.0f", r.Launches), fmt.Sprintf("%.0f", r.Interrupted), fmt.Sprint(r.Failed),
		}
	}
	cli.PrintTable([]string{"policy", "cost", "unmet cpu-hours", "unmet", "longest wait", "used", "target changes", "launches", "interrupted", "failed ticks"}, table)
	_, err := fmt.Fprintf(cli.Stdout, "%s to %s, %d seeds\n", rows[0].From.UTC().Format(time.RFC3339), rows[0].To.UTC().Format(time.RFC3339), rows[0].Seeds)
	return err
}

func text(e api.Estimate, seeds int) string {
	if seeds < 2 {
		return fmt.Sprintf("%.2f", e.Mean)
	}
	return fmt.Sprintf("%.2f ± %.2f", e.Mean, e.Half)
}

// difference returns the difference to the first row, in percent.
func difference(x, first float64, row int) string {
	if row == 0 || first <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%+.1f %%)", 100*(x/first-1))
}

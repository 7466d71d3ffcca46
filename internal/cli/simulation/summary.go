package simulation

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// summaries returns a row for each policy with a run that began.
func summaries(s scenario, policies []policy, results [][]simulate.Result) []api.Simulated {
	var out []api.Simulated
	for i, p := range policies {
		if r := row(s, p, results[i]); r.Seeds > 0 {
			out = append(out, r)
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

// row returns the row of a policy, of the runs that began.
func row(s scenario, p policy, results []simulate.Result) api.Simulated {
	results = slices.DeleteFunc(slices.Clone(results), func(r simulate.Result) bool { return r.Ticks == 0 })
	if len(results) == 0 {
		return api.Simulated{}
	}
	out := summary(results)
	out.Policy = p.name
	if s.prices != nil {
		out.Currency = s.prices.Currency
		return out
	}
	out.Cost = nil
	for i := range out.Markets {
		out.Markets[i].Cost = nil
	}
	return out
}

func summary(results []simulate.Result) api.Simulated {
	n := float64(len(results))
	out := api.Simulated{Seeds: len(results), From: results[0].From, To: results[0].To, UnmetBy: map[string]float64{}, UnusedBy: map[string]float64{}}
	markets := map[string]*api.SimulatedMarket{}
	var cost, unmet []float64
	offered := 0.0
	for _, r := range results {
		cost, unmet = append(cost, r.Cost.Float()), append(unmet, r.Unmet[resource.CPUs])
		out.Wanted += r.Wanted[resource.CPUs] / n
		offered += r.Offered[resource.CPUs] / n
		for k, wanted := range r.Wanted {
			if wanted > 0 {
				out.UnmetBy[resource.Kind(k).String()] += r.Unmet[k] / n
				out.UnusedBy[resource.Kind(k).String()] += max(0, r.Offered[k]-wanted+r.Unmet[k]) / n
			}
		}
		if waited := r.Waited.Seconds(); waited > out.Waited {
			out.Waited, out.WaitedAt = waited, r.WaitedAt
		}
		for _, m := range r.Markets {
			out.Hours += m.Hours / n
			one := markets[m.String()]
			if one == nil {
				one = &api.SimulatedMarket{Market: m.String(), Cost: new(float64)}
				markets[m.String()] = one
			}
			one.Hours += m.Hours / n
			*one.Cost += m.Cost.Float() / n
		}
		out.Changes += float64(r.Changes) / n
		out.Launches += float64(r.Launches) / n
		out.Interrupted += float64(r.Interrupted) / n
		out.Removed += float64(r.Removed) / n
		out.Broken += float64(r.Broken) / n
		out.Repaired += float64(r.Repaired) / n
		out.Disrupted += float64(r.Disrupted) / n
		out.Failed += r.Failed
		if r.To.Before(out.To) {
			out.To = r.To
		}
	}
	for _, name := range slices.Sorted(maps.Keys(markets)) {
		out.Markets = append(out.Markets, *markets[name])
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
	if cli.Form == formCSV {
		return printCSV(cli.Stdout, rows)
	}
	if cli.Output != "table" {
		return cli.PrintJSON(rows)
	}
	table := make([][]string, len(rows))
	noted := false
	for i, r := range rows {
		cost := "unknown"
		if r.Cost != nil {
			cost = text(*r.Cost, r.Seeds) + " " + r.Currency + difference(r.Cost.Mean, rows[0].Cost.Mean, i)
		}
		note := note(r, rows[0])
		noted = noted || note != ""
		table[i] = []string{
			r.Policy, cost, text(r.Unmet, r.Seeds) + difference(r.Unmet.Mean, rows[0].Unmet.Mean, i), fmt.Sprintf("%.2f %%", 100*r.UnmetShare),
			seconds.Short(time.Duration(r.Waited * float64(time.Second)).Round(time.Second)), fmt.Sprintf("%.1f %%", 100*r.Used),
			fmt.Sprintf("%.0f", r.Changes), fmt.Sprintf("%.0f", r.Launches), fmt.Sprintf("%.0f", r.Interrupted), fmt.Sprint(r.Failed), note,
		}
	}
	head := []string{"policy", "cost", "unmet cpu-hours", "unmet", "longest wait", "used", "target changes", "launches", "interrupted", "failed ticks"}
	if noted {
		head = append(head, "note")
	} else {
		for i := range table {
			table[i] = table[i][:len(head)]
		}
	}
	cli.PrintTable(head, table)
	_, err := fmt.Fprintf(cli.Stdout, "%s to %s, %d %s\n", rows[0].From.UTC().Format(time.RFC3339), rows[0].To.UTC().Format(time.RFC3339),
		rows[0].Seeds, map[bool]string{true: "seed", false: "seeds"}[rows[0].Seeds == 1])
	return err
}

// note returns the note of a row.
func note(r, first api.Simulated) string {
	var all []string
	if r.Dominated != "" {
		all = append(all, "beaten by "+r.Dominated)
	}
	for _, m := range r.Misses {
		all = append(all, "misses "+m)
	}
	if r.Broken > 0 {
		all = append(all, fmt.Sprintf("%.0f machines failed, and %.0f were replaced", r.Broken, r.Repaired))
	}
	if r.To != first.To {
		all = append(all, "until "+r.To.UTC().Format(time.RFC3339))
	}
	return strings.Join(all, ", ")
}

// csvHead are the columns of --output csv. A cell of a number that is unknown is empty.
var csvHead = []string{
	"policy", "rank", "seeds", "from", "to", "currency", "cost", "cost_half_width", "unmet_cpu_hours", "unmet_half_width", "unmet_share", "wanted_cpu_hours",
	"unused_cpu_hours", "used_share", "longest_wait_s", "machine_hours", "target_changes", "launches", "removed", "interrupted", "disrupted_copies", "failed_ticks", "misses",
}

func printCSV(to io.Writer, rows []api.Simulated) error {
	w := csv.NewWriter(to)
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	lines := [][]string{csvHead}
	for _, r := range rows {
		cost, half, rank := "", "", ""
		if r.Cost != nil {
			cost, half = number(r.Cost.Mean), number(r.Cost.Half)
		}
		if r.Rank > 0 {
			rank = strconv.Itoa(r.Rank)
		}
		lines = append(lines, []string{
			r.Policy, rank, strconv.Itoa(r.Seeds), r.From.UTC().Format(time.RFC3339), r.To.UTC().Format(time.RFC3339), r.Currency, cost, half,
			number(r.Unmet.Mean), number(r.Unmet.Half), number(r.UnmetShare), number(r.Wanted), number(r.UnusedBy[resource.CPUs.String()]), number(r.Used), number(r.Waited),
			number(r.Hours), number(r.Changes), number(r.Launches), number(r.Removed), number(r.Interrupted), number(r.Disrupted), strconv.Itoa(r.Failed), strings.Join(r.Misses, "; "),
		})
	}
	return w.WriteAll(lines)
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

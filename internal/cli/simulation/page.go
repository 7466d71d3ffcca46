package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// report is the page of a batch.
type report struct {
	batch
	rows    []api.Simulated // in the order of the policies
	results [][]simulate.Result
	goal    *objective
	chosen  string // policy that is first by the objective
}

// The bounds of the page.
const (
	maxPlotted  = 3  // policies with plots, and with columns of their own in the table
	maxWorst    = 10 // rows of the worst stretches, of all policies
	maxDiffered = 40 // keys
	plotColumns = 360
)

// cause returns what kept the pool from growing at a tick.
func cause(r api.TickRecord) string {
	s := history.SummaryOf(r)
	for _, h := range s.Holds {
		if h.Direction == api.DirectionUp {
			return h.Why
		}
	}
	if s.Target != nil && s.Joined < *s.Target-resource.Slack {
		return fmt.Sprintf("machines were starting: %s of %s weight had joined", plot.Number(s.Joined), plot.Number(*s.Target))
	}
	return "nothing held the pool: the signals had reported less than was needed"
}

// write writes the page to a file.
func (r report) write(ctx context.Context, path string) error {
	other, err := r.otherwise(ctx)
	if err != nil {
		return err
	}
	page := r.page(other)
	text, err := page.HTML(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// otherwise returns the rows of the plotted policies if the series changes between its points in the other way: linearly or in steps.
// The difference is what the points do not show.
func (r report) otherwise(ctx context.Context) (out map[string]api.Simulated, err error) {
	if r.scenario.file.Demand.Series == nil {
		return nil, nil
	}
	other := r.batch
	other.scenario.counts = r.scenario.counts.Fresh()
	other.scenario.counts.Linear = !r.scenario.counts.Linear
	other.seeds, other.plots, other.records, other.ended, other.policies = 1, false, "", nil, nil
	for _, i := range r.plotted() {
		other.policies = append(other.policies, r.policies[i])
	}
	results, err := other.run(ctx)
	if ctx.Err() != nil {
		return nil, nil // the page is without them
	}
	out = map[string]api.Simulated{}
	for i, all := range results {
		out[other.policies[i].name] = row(other.scenario, other.policies[i], all)
	}
	return out, err
}

// plotted returns the policies with plots: all, or of many the first one and the one that is chosen.
func (r report) plotted() (out []int) {
	for i, p := range r.policies {
		began := r.results[i][0].Ticks > 0
		if began && (len(r.policies) <= maxPlotted || i == 0 || p.name == r.chosen) {
			out = append(out, i)
		}
	}
	return out
}

func (r report) page(other map[string]api.Simulated) web.Report {
	first := r.rows[0]
	out := web.Report{Title: "Simulation of pool " + r.policies[0].config.Pool, Sentence: r.sentence(), From: first.From}
	out.Above = append(out.Above, r.comparison(other))
	if len(r.rows) > 2 {
		out.Above = append(out.Above, r.scatter())
	}
	if t := r.differences(); len(t.Rows) > 0 {
		out.Above = append(out.Above, t)
	}
	plotted := r.plotted()
	out.Columns, out.To = r.columns(plotted)
	for _, d := range r.drawings() {
		section := web.ReportPlots{Title: d.title}
		for _, i := range plotted {
			result := r.results[i][0]
			result.Columns = append(slices.Clone(result.Columns), make([]simulate.Column, out.Columns-len(result.Columns))...)
			c := d.chart(result)
			c.Columns, c.Height = out.Columns, d.height
			c.Name = d.title + " of " + display(r.policies[i].name)
			section.Lanes = append(section.Lanes, web.ReportLane{Name: display(r.policies[i].name), Chart: c})
		}
		out.Plots = append(out.Plots, section)
	}
	if t := r.worst(plotted); len(t.Rows) > 0 {
		out.Below = append(out.Below, t)
	}
	out.Below = append(out.Below, r.assumptions())
	out.Notes = r.notes()
	return out
}

// columns returns the number of columns of the plots, and their end. In a cancelled command, some policies ended early.
func (r report) columns(plotted []int) (n int, end time.Time) {
	n, end = 1, r.rows[0].To
	for _, i := range plotted {
		all := r.results[i][0].Columns
		if len(all) > n {
			n = len(all)
			width := all[1].From.Sub(all[0].From)
			end = all[n-1].From.Add(width)
		}
	}
	return n, end
}

// sentence compares the first two policies, or the chosen one with the first.
func (r report) sentence() string {
	a := r.rows[0]
	days := a.To.Sub(a.From)
	text := fmt.Sprintf("%s from %s. ", seconds.Short(days.Round(time.Minute)), a.From.UTC().Format("2 January 2006 15:04"))
	if days >= 48*time.Hour {
		text = fmt.Sprintf("%.3g days from %s. ", days.Hours()/24, a.From.UTC().Format("2 January 2006"))
	}
	if end := r.scenario.start.Add(r.scenario.length); a.To.Before(end.Add(-r.policies[0].config.Tick)) {
		text += fmt.Sprintf("The command was interrupted: the scenario is until %s. ", end.UTC().Format("2 January 2006"))
	}
	if len(r.rows) == 1 {
		return text + fmt.Sprintf("%s costs %s, leaves %.2f %% of the needed cpu-hours unmet, and work waits for at most %s.", display(a.Policy), cost(a), 100*a.UnmetShare, wait(a))
	}
	b := r.rows[1]
	if len(r.rows) > 2 || r.goal != nil {
		i := slices.IndexFunc(r.rows, func(x api.Simulated) bool { return x.Policy == r.chosen })
		if i == 0 {
			return text + fmt.Sprintf("Of %d policies, the first one (%s) is the best%s: it costs %s, leaves %.2f %% unmet, and work waits for at most %s.", len(r.rows), display(a.Policy), r.by(), cost(a), 100*a.UnmetShare, wait(a))
		}
		b = r.rows[i]
		if r.goal != nil {
			text += fmt.Sprintf("Of %d policies, %s is the best%s. ", len(r.rows), display(b.Policy), r.by())
		}
	}
	text += fmt.Sprintf("%s costs %s and %s costs %s%s. They leave %.2f %% and %.2f %% of the needed cpu-hours unmet%s. Work waits for at most %s and %s.",
		display(a.Policy), cost(a), display(b.Policy), cost(b), changeOf(mean(b.Cost), mean(a.Cost)), 100*a.UnmetShare, 100*b.UnmetShare, changeOf(b.Unmet.Mean, a.Unmet.Mean), wait(a), wait(b))
	for _, pair := range [][2]api.Simulated{{a, b}, {b, a}} {
		if beats(pair[0], pair[1]) {
			text += fmt.Sprintf(" %s is better in cost and in unmet demand.", display(pair[0].Policy))
		}
	}
	return text
}

// by returns the objective: " by cost, with unmet<=2%".
func (r report) by() string {
	if r.goal == nil {
		return ""
	}
	var bounds []string
	for _, b := range r.goal.bounds {
		bounds = append(bounds, b.text)
	}
	if len(bounds) == 0 {
		return " by " + r.goal.quantity
	}
	return " by " + r.goal.quantity + ", with " + strings.Join(bounds, ", ")
}

func mean(e *api.Estimate) float64 {
	if e == nil {
		return 0
	}
	return e.Mean
}

// changeOf returns the change from before: " (+3.1 %)".
func changeOf(x, before float64) string { return difference(x, before, 1) }

func cost(r api.Simulated) string {
	if r.Cost == nil {
		return "an unknown amount"
	}
	return money(*r.Cost, r)
}

func money(e api.Estimate, r api.Simulated) string { return text(e, r.Seeds) + " " + r.Currency }

func wait(r api.Simulated) string {
	return seconds.Short(time.Duration(r.Waited * float64(time.Second)).Round(time.Second))
}

// worst lists the worst stretches of the plotted policies.
func (r report) worst(plotted []int) web.ReportTable {
	t := web.ReportTable{
		Title: "Worst stretches of waiting work", Note: "What kept the pool from growing is of the last tick before the most work waited. Times are of the first seed.",
		Head: []string{"Policy", "From", "Lasted", "Unmet cpu-hours", "What kept the pool from growing"},
	}
	most := maxWorst / max(1, len(plotted))
	for _, i := range plotted {
		for _, w := range r.results[i][0].Worst[:min(most, len(r.results[i][0].Worst))] {
			t.Rows = append(t.Rows, []web.ReportCell{
				{Text: display(r.policies[i].name)}, {Text: w.From.UTC().Format("Mon 2 Jan 15:04")}, {Text: seconds.Short(w.To.Sub(w.From).Round(time.Second)), Number: true},
				{Text: plot.Number(w.Unmet[resource.CPUs]), Number: true}, {Text: w.Why, Class: "why"},
			})
		}
	}
	return t
}

// assumptions lists what the numbers depend on.
func (r report) assumptions() web.ReportTable {
	t := web.ReportTable{Title: "Assumptions", Head: []string{"Input", "Value"}}
	add := func(name, value string) { t.Rows = append(t.Rows, []web.ReportCell{{Text: name}, {Text: value}}) }
	f := r.scenario.file
	if one := f.Demand.Series; one != nil {
		between := "in steps: each point counts until the next"
		if r.scenario.counts.Linear {
			between = "linear between points"
		}
		text := []string{one.File, between}
		for _, name := range slices.Sorted(maps.Keys(one.Scale)) {
			text = append(text, fmt.Sprintf("%s times %g", name, one.Scale[name]))
		}
		add("Demand", strings.Join(text, ", "))
	} else {
		for _, a := range f.Demand.Apps {
			count := a.File
			if a.Instances != nil {
				count = fmt.Sprint(*a.Instances)
			}
			add("App "+a.Name, fmt.Sprintf("instances: %s; one takes %v and starts in %s", count, resource.Vector{a.CPUs, a.Mem, a.Disk, a.GPUs}, seconds.Short(a.StartsIn)))
		}
	}
	add("Signals", fmt.Sprintf("each %s they report the demand of %s ago, times %g", seconds.Short(r.policies[0].config.Default.Period), seconds.Short(f.Run.Delay), cmp.Or(f.Run.Headroom, 1)))
	for _, app := range slices.Sorted(maps.Keys(f.Signals)) {
		one := f.Signals[app]
		program := "the program " + strings.Join(one.Program, " ")
		if one.Release != "" {
			program = "release " + one.Release
		}
		add("Signal of app "+app, fmt.Sprintf("%s, with the metrics in %s", program, one.Metrics))
	}
	for _, id := range slices.Sorted(maps.Keys(f.Groups)) {
		g := f.Groups[id]
		market := groupOf(id, g).Market
		text := fmt.Sprintf("%s; launch %s at the median, %s at the 95th percentile; leaves in %s", market, seconds.Short(g.Launch.P50), seconds.Short(max(g.Launch.P50, g.Launch.P95)), seconds.Short(g.Leave))
		if g.Interruptions.PerHour > 0 {
			text += fmt.Sprintf("; %g interruptions of a machine an hour, warned %s before", g.Interruptions.PerHour, seconds.Short(g.Interruptions.Warning))
		}
		if g.Failures.PerHour > 0 {
			text += fmt.Sprintf("; %g failures of a machine an hour", g.Failures.PerHour)
		}
		add("Group "+id, text)
	}
	if p := f.Prices; p != nil {
		add("Prices", strings.Trim(p.Table+", "+p.SpotHistory, ", "))
	}
	add("Tick", seconds.Short(r.policies[0].config.Tick))
	add("Plots", "of the first seed; the bill of a machine is distributed over the time in which it was used")
	seeds := fmt.Sprint(f.Run.Seed)
	if r.seeds > 1 {
		seeds += fmt.Sprintf(" to %d", f.Run.Seed+r.seeds-1)
	}
	add("Seeds", seeds)
	if n := len(f.Events); n > 0 {
		add("Events", fmt.Sprintf("%d in the scenario", n))
	}
	return t
}

// notes lists what the numbers do not show.
func (r report) notes() (out []string) {
	for _, w := range r.scenario.warnings(r.policies) {
		out = append(out, "Warning: "+w)
	}
	if s := r.scenario.file.Demand.Series; s != nil {
		out = append(out, "Unmet work of a series is dropped. A real queue grows, and users retry or leave: unmet demand is a bound.")
		if len(s.Scale) == 0 {
			out = append(out, "The series has no scale: its values are cpus. If they are requests or percents, the level of all numbers is wrong.")
		} else {
			out = append(out, "The scale of the series is an assumption. The order of policies depends on it less than the level of their numbers.")
		}
		out = append(out, "Points of minutes hide peaks between them. The row for steps and lines shows how much that may be.")
	}
	if r.scenario.prices == nil {
		out = append(out, "The scenario has no prices, so that nothing has a cost.")
	}
	if r.scenario.file.Run.Delay == 0 {
		out = append(out, "Signals report the demand without a delay. Real signals are late.")
	}
	out = append(out,
		"The signals report the demand itself, with that delay. A real signal may be worse.",
		"An interval over seeds covers launch times and interruptions, and not the demand of another month. Choose a policy on one time, and test it on another one.",
		"Usage of machines that were scaled themselves is not demand.",
	)
	return out
}

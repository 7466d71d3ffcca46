package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
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
	out := web.Report{Title: "Simulation of pool " + r.policies[0].config.Pool, Sentence: r.sentence(), From: first.From, Columns: 1}
	out.Above = append(out.Above, r.comparison(other))
	if len(r.rows) > 2 {
		out.Above = append(out.Above, r.scatter())
	}
	if t := r.differences(); len(t.Rows) > 0 {
		out.Above = append(out.Above, t)
	}
	plotted := r.plotted()
	for _, i := range plotted {
		columns := r.results[i][0].Columns
		out.Columns = len(columns)
		each := columns[len(columns)-1].From.Sub(first.From) / time.Duration(max(len(columns)-1, 1))
		if len(columns) == 1 {
			each = first.To.Sub(first.From)
		}
		out.To = first.From.Add(each * time.Duration(len(columns)))
	}
	for _, d := range r.drawings() {
		section := web.ReportPlots{Title: d.title}
		for _, i := range plotted {
			c := d.chart(r.results[i][0])
			c.Columns, c.Height = out.Columns, d.height
			c.Name = d.title + " of " + r.policies[i].name
			section.Lanes = append(section.Lanes, web.ReportLane{Name: r.policies[i].name, Chart: c})
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

// sentence compares the first two policies, or the chosen one with the first.
func (r report) sentence() string {
	a := r.rows[0]
	days := a.To.Sub(a.From)
	text := fmt.Sprintf("%s from %s. ", seconds.Short(days.Round(time.Minute)), a.From.UTC().Format("2 January 2006 15:04"))
	if days >= 48*time.Hour {
		text = fmt.Sprintf("%.3g days from %s. ", days.Hours()/24, a.From.UTC().Format("2 January 2006"))
	}
	if len(r.rows) == 1 {
		return text + fmt.Sprintf("%s costs %s, leaves %.2f %% of the needed cpu-hours unmet, and work waits for at most %s.", a.Policy, cost(a), 100*a.UnmetShare, wait(a))
	}
	b := r.rows[1]
	if len(r.rows) > 2 || r.goal != nil {
		i := slices.IndexFunc(r.rows, func(x api.Simulated) bool { return x.Policy == r.chosen })
		if i == 0 {
			return text + fmt.Sprintf("Of %d policies, the first one (%s) is the best%s: it costs %s, leaves %.2f %% unmet, and work waits for at most %s.", len(r.rows), a.Policy, r.by(), cost(a), 100*a.UnmetShare, wait(a))
		}
		b = r.rows[i]
		if r.goal != nil {
			text += fmt.Sprintf("Of %d policies, %s is the best%s. ", len(r.rows), b.Policy, r.by())
		}
	}
	return text + fmt.Sprintf("%s costs %s and %s costs %s%s. They leave %.2f %% and %.2f %% of the needed cpu-hours unmet%s. Work waits for at most %s and %s.",
		a.Policy, cost(a), b.Policy, cost(b), changeOf(mean(b.Cost), mean(a.Cost)), 100*a.UnmetShare, 100*b.UnmetShare, changeOf(b.Unmet.Mean, a.Unmet.Mean), wait(a), wait(b))
}

// by returns the objective: " by cost, with unmet<=2%".
func (r report) by() string {
	if r.goal == nil {
		return ""
	}
	text := " by " + r.goal.quantity
	for i, b := range r.goal.bounds {
		if text += ", "; i == 0 {
			text += "with "
		}
		text += b.text
	}
	return text
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

// measure is a row of the comparison.
type measure struct {
	name  string
	text  func(api.Simulated) string
	value func(api.Simulated) float64 // for the difference to the first policy; nil: it has none
}

// measures returns the rows of the comparison.
func (r report) measures(other map[string]api.Simulated) []measure {
	out := []measure{{"Cost", cost, func(s api.Simulated) float64 { return mean(s.Cost) }}}
	markets := map[string]bool{}
	for _, s := range r.rows {
		for _, m := range s.Markets {
			markets[m.Market] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(markets)) {
		of := func(s api.Simulated) (m api.SimulatedMarket) {
			for _, one := range s.Markets {
				if one.Market == name {
					m = one
				}
			}
			return m
		}
		out = append(out, measure{"· " + name, func(s api.Simulated) string {
			m := of(s)
			if m.Cost == nil {
				return plot.Number(m.Hours) + " machine-hours"
			}
			return fmt.Sprintf("%.2f %s · %s machine-hours", *m.Cost, s.Currency, plot.Number(m.Hours))
		}, nil})
	}
	share := func(part, of float64) string {
		if of <= 0 {
			return ""
		}
		return fmt.Sprintf(" · %.2f %%", 100*part/of)
	}
	out = append(out, measure{"Unmet cpu-hours", func(s api.Simulated) string { return text(s.Unmet, s.Seeds) + share(s.Unmet.Mean, s.Wanted) }, func(s api.Simulated) float64 { return s.Unmet.Mean }})
	if len(other) > 0 {
		name := "· if the series were in steps"
		if !r.scenario.counts.Linear {
			name = "· if the series were linear"
		}
		out = append(out, measure{name, func(s api.Simulated) string {
			o, known := other[s.Policy]
			if !known {
				return "–"
			}
			return text(o.Unmet, 1) + share(o.Unmet.Mean, o.Wanted) + " · cost " + text(*cmp.Or(o.Cost, new(api.Estimate)), 1)
		}, nil})
	}
	out = append(out, measure{"· on the worst day", func(s api.Simulated) string { return r.worstDay(s.Policy) }, nil})
	for _, k := range resource.Kinds() {
		if name := k.String(); k != resource.CPUs && slices.ContainsFunc(r.rows, func(s api.Simulated) bool { return s.UnmetBy[name] > 0 }) {
			out = append(out, measure{"Unmet " + name + "-hours", func(s api.Simulated) string { return plot.Number(s.UnmetBy[name]) }, func(s api.Simulated) float64 { return s.UnmetBy[name] }})
		}
	}
	count := func(name string, of func(api.Simulated) float64) measure {
		return measure{name, func(s api.Simulated) string { return fmt.Sprintf("%.0f", of(s)) }, of}
	}
	out = append(out,
		measure{"Longest wait", func(s api.Simulated) string {
			if s.Waited == 0 {
				return "none"
			}
			return wait(s) + " · " + s.WaitedAt.UTC().Format("Mon 2 Jan 15:04")
		}, func(s api.Simulated) float64 { return s.Waited }},
		measure{"Unused cpu-hours", func(s api.Simulated) string {
			return plot.Number(s.UnusedBy["cpus"]) + fmt.Sprintf(" · %.1f %%", 100*(1-s.Used))
		}, func(s api.Simulated) float64 { return s.UnusedBy["cpus"] }},
		measure{"Machine-hours", func(s api.Simulated) string { return plot.Number(s.Hours) }, func(s api.Simulated) float64 { return s.Hours }},
		count("Machines launched", func(s api.Simulated) float64 { return s.Launches }),
		count("Machines that the pool ended", func(s api.Simulated) float64 { return s.Removed }),
		count("Machines that the provider interrupted", func(s api.Simulated) float64 { return s.Interrupted }),
	)
	if r.scenario.file.Demand.Series == nil {
		out = append(out, count("Copies that were moved or lost", func(s api.Simulated) float64 { return s.Disrupted }))
	}
	return append(out,
		count("Ticks that changed a target", func(s api.Simulated) float64 { return s.Changes }),
		measure{"Ticks without a decision", func(s api.Simulated) string { return fmt.Sprint(s.Failed) }, nil},
	)
}

// worstDay returns the day with the largest unmet share of the first seed of a policy.
func (r report) worstDay(name string) string {
	type day struct{ wanted, unmet float64 }
	days := map[string]day{}
	for i, p := range r.policies {
		if p.name != name {
			continue
		}
		for _, c := range r.results[i][0].Columns {
			key := c.From.UTC().Format(time.DateOnly)
			d := days[key]
			days[key] = day{d.wanted + c.Wanted[resource.CPUs], d.unmet + c.Unmet[resource.CPUs]}
		}
	}
	worst, most := "–", 0.0
	for _, key := range slices.Sorted(maps.Keys(days)) {
		if d := days[key]; d.wanted > 0 && d.unmet/d.wanted > most {
			at, _ := time.Parse(time.DateOnly, key)
			most = d.unmet / d.wanted
			worst = fmt.Sprintf("%.2f · %.2f %% · %s", d.unmet, 100*most, at.Format("Mon 2 Jan"))
		}
	}
	return worst
}

// comparison has a column for each policy, or a row for each of many.
func (r report) comparison(other map[string]api.Simulated) web.ReportTable {
	all := r.measures(other)
	cell := func(m measure, i int) web.ReportCell {
		c := web.ReportCell{Text: m.text(r.rows[i]), Number: true}
		if m.value != nil {
			c.Rest = strings.TrimSpace(difference(m.value(r.rows[i]), m.value(r.rows[0]), i))
		}
		return c
	}
	t := web.ReportTable{Title: "Result"}
	if n := r.rows[0].Seeds; n > 1 {
		t.Note = fmt.Sprintf("Means of %d seeds. After ± is half of the width of the 95 %% interval over the seeds, which vary launch times and interruptions.", n)
	}
	if len(r.rows) <= maxPlotted {
		t.Head = append(t.Head, "Quantity")
		for _, s := range r.rows {
			t.Head = append(t.Head, s.Policy)
		}
		for _, m := range all {
			row := []web.ReportCell{{Text: m.name}}
			for i := range r.rows {
				row = append(row, cell(m, i))
			}
			t.Rows = append(t.Rows, row)
		}
		return t
	}
	all = slices.DeleteFunc(all, func(m measure) bool { return m.value == nil })
	t.Head = []string{"Policy"}
	for _, m := range all {
		t.Head = append(t.Head, m.name)
	}
	if r.goal != nil {
		t.Head = append(t.Head, "Misses")
	}
	ranked := slices.Clone(r.rows)
	if r.goal != nil {
		_ = r.goal.rank(ranked) // the command returns the error
	}
	for _, s := range ranked {
		i := slices.IndexFunc(r.rows, func(x api.Simulated) bool { return x.Policy == s.Policy })
		row := []web.ReportCell{{Text: s.Policy}}
		if s.Policy == r.chosen && r.goal != nil {
			row[0].Class = "strong"
		}
		for _, m := range all {
			row = append(row, cell(m, i))
		}
		if r.goal != nil {
			row = append(row, web.ReportCell{Text: cmp.Or(strings.Join(s.Misses, ", "), "–")})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// scatter shows cost against unmet demand.
func (r report) scatter() web.ReportTable {
	s := &plot.Scatter{Name: "Cost against unmet demand of each policy", X: "cost, " + r.rows[0].Currency, Y: "unmet cpu-hours", Height: 320}
	of := func(x api.Simulated) api.Estimate { return *x.Cost }
	if r.rows[0].Cost == nil {
		s.X = "machine-hours"
		of = func(x api.Simulated) api.Estimate { return api.Estimate{Mean: x.Hours} }
	}
	for _, row := range r.rows {
		c := of(row)
		d := plot.Dot{X: c.Mean, Y: row.Unmet.Mean, HalfX: c.Half, HalfY: row.Unmet.Half, Class: "sj", Text: shortName(row.Policy)}
		if row.Policy == r.chosen && r.goal != nil {
			d.Class = "chosen"
		}
		s.Dots = append(s.Dots, d)
	}
	return web.ReportTable{Title: "Cost against unmet demand", Note: "A policy above and to the right of another one is worse in both.", Scatter: s}
}

// shortName returns the values of a sweep, without keys.
func shortName(name string) string {
	var values []string
	for part := range strings.SplitSeq(name, ",") {
		_, value, found := strings.Cut(part, "=")
		if !found {
			return name
		}
		values = append(values, value)
	}
	return strings.Join(values, ", ")
}

// differences shows the keys in which the plotted policies differ.
func (r report) differences() web.ReportTable {
	plotted := r.plotted()
	t := web.ReportTable{Title: "What differs", Head: []string{"Key"}}
	if len(plotted) < 2 {
		return t
	}
	keys := map[string]bool{}
	for _, i := range plotted {
		t.Head = append(t.Head, r.policies[i].name)
		for key := range r.policies[i].parts {
			keys[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		row, same := []web.ReportCell{{Text: key}}, true
		for _, i := range plotted {
			value, known := r.policies[i].parts[key]
			if same = same && value == r.policies[plotted[0]].parts[key]; !known {
				value = "–"
			}
			row = append(row, web.ReportCell{Text: value})
		}
		if !same && len(t.Rows) < maxDiffered {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// drawing is one plot for each policy.
type drawing struct {
	title  string
	height int
	chart  func(simulate.Result) plot.Chart
}

// drawings returns the plots: cause before effect.
func (r report) drawings() (out []drawing) {
	plotted := r.plotted()
	wants := func(k resource.Kind) bool {
		return slices.ContainsFunc(plotted, func(i int) bool { return r.results[i][0].Wanted[k] > 0 })
	}
	for _, k := range resource.Kinds() {
		if !wants(k) {
			continue
		}
		out = append(out, drawing{"Work and capacity, " + k.String(), 132, func(s simulate.Result) plot.Chart {
			served := layer(s, "a0", "served", meanOf, func(c simulate.Column) float64 { return c.Wanted[k] - c.Unmet[k] })
			unmet := layer(s, "bad", "unmet", meanOf, func(c simulate.Column) float64 { return c.Unmet[k] })
			offered := layer(s, "strong", "offered", meanOf, func(c simulate.Column) float64 { return c.Offered[k] })
			return plot.Chart{Stack: []plot.Layer{served, unmet}, Lines: []plot.Layer{offered}}
		}})
	}
	for _, k := range resource.Kinds() {
		if !wants(k) || !slices.ContainsFunc(plotted, func(i int) bool { return r.results[i][0].Unmet[k] > 0 }) {
			continue
		}
		out = append(out, drawing{"Unmet demand, " + k.String(), 64, func(s simulate.Result) plot.Chart {
			return plot.Chart{Stack: []plot.Layer{layer(s, "bad", "unmet", totalOf, func(c simulate.Column) float64 { return c.Unmet[k] })}}
		}})
	}
	out = append(out,
		drawing{"Longest wait, minutes", 56, func(s simulate.Result) plot.Chart {
			return plot.Chart{Stack: []plot.Layer{layer(s, "warn", "wait", mostOf, func(c simulate.Column) float64 { return c.Waited.Minutes() * c.Hours })}}
		}},
		drawing{"Unused capacity, cpus", 64, func(s simulate.Result) plot.Chart {
			return plot.Chart{Stack: []plot.Layer{layer(s, "a3", "unused", meanOf, func(c simulate.Column) float64 {
				return c.Offered[resource.CPUs] - c.Wanted[resource.CPUs] + c.Unmet[resource.CPUs]
			})}}
		}})
	if r.scenario.prices != nil {
		out = append(out, drawing{"Cost an hour by market, " + r.rows[0].Currency, 96, func(s simulate.Result) plot.Chart {
			return plot.Chart{Stack: costs(s)}
		}})
	}
	return append(out,
		drawing{"Machines", 56, func(s simulate.Result) plot.Chart {
			return plot.Chart{Stack: []plot.Layer{layer(s, "sj", "exist", meanOf, func(c simulate.Column) float64 { return c.Existed })}}
		}},
		drawing{"Launches and ends, machines an hour", 64, func(s simulate.Result) plot.Chart {
			count := func(of func(simulate.Column) int) func(simulate.Column) float64 {
				return func(c simulate.Column) float64 { return float64(of(c)) }
			}
			stack := []plot.Layer{
				layer(s, "g0", "launched", totalOf, count(func(c simulate.Column) int { return c.Launches })),
				layer(s, "g2", "ended", totalOf, count(func(c simulate.Column) int { return c.Removed })),
			}
			if s.Interrupted > 0 {
				stack = append(stack, layer(s, "bad", "interrupted", totalOf, count(func(c simulate.Column) int { return c.Interrupted })))
			}
			return plot.Chart{Stack: stack}
		}})
}

// Values of a layer's label.
const (
	meanOf  = "mean"
	totalOf = "total"
	mostOf  = "most"
)

// layer returns a layer of a value of each column, which of is times the hours of the column.
func layer(s simulate.Result, class, name, label string, of func(simulate.Column) float64) plot.Layer {
	l := plot.Layer{Class: class, Name: name, Bins: make([]series.Bin, len(s.Columns))}
	total, hours, most := 0.0, 0.0, 0.0
	for i, c := range s.Columns {
		if c.Hours <= 0 {
			continue
		}
		x := max(0, of(c)) / c.Hours
		total, hours, most = total+of(c), hours+c.Hours, max(most, x)
		l.Bins[i] = bin(x)
	}
	value := map[string]float64{totalOf: total, mostOf: most, meanOf: total / max(hours, 1e-9)}[label]
	l.Value = label + " " + plot.Number(math.Round(value*1000)/1000)
	return l
}

func bin(x float64) series.Bin {
	y := float32(x)
	return series.Bin{Min: y, Max: y, Last: y, Mean: y, OK: true}
}

// costs returns a layer for each market.
func costs(s simulate.Result) (out []plot.Layer) {
	for i, m := range s.Markets {
		l := plot.Layer{Class: fmt.Sprintf("g%d", i%3), Name: shortMarket(m.Market), Value: fmt.Sprintf("%.2f", m.Cost.Float()), Bins: make([]series.Bin, len(s.Columns))}
		for k, c := range s.Columns {
			if c.Hours > 0 && k < len(m.Columns) {
				l.Bins[k] = bin(m.Columns[k].Float() / c.Hours)
			}
		}
		out = append(out, l)
	}
	return out
}

// shortMarket returns the name of a market in the room beside a plot.
func shortMarket(m price.Market) string {
	name := cmp.Or(m.Type, "machines")
	if m.Spot {
		name += " spot"
	}
	if m.Zone != "" && len(name) < 10 {
		name += " " + m.Zone[max(0, len(m.Zone)-2):]
	}
	return series.Cut(name, 16)
}

// worst lists the worst stretches of the plotted policies.
func (r report) worst(plotted []int) web.ReportTable {
	t := web.ReportTable{
		Title: "Worst stretches of waiting work", Note: "What kept the pool from growing is of the last tick before the most work waited. Times are of the first seed.",
		Head: []string{"Policy", "From", "Lasted", "Unmet cpu-hours", "What kept the pool from growing"},
	}
	each := maxWorst / max(1, len(plotted))
	for _, i := range plotted {
		for _, w := range r.results[i][0].Worst[:min(each, len(r.results[i][0].Worst))] {
			t.Rows = append(t.Rows, []web.ReportCell{
				{Text: r.policies[i].name}, {Text: w.From.UTC().Format("Mon 2 Jan 15:04")}, {Text: seconds.Short(w.To.Sub(w.From).Round(time.Second)), Number: true},
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
		scale := ""
		for _, name := range slices.Sorted(maps.Keys(one.Scale)) {
			scale += fmt.Sprintf(", %s times %g", name, one.Scale[name])
		}
		add("Demand", one.File+", "+between+scale)
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
	for _, id := range slices.Sorted(maps.Keys(f.Groups)) {
		g := f.Groups[id]
		market := groupOf(id, g).Market
		text := fmt.Sprintf("%s; launch %s at the median, %s at the 95th percentile; leaves in %s", market, seconds.Short(g.Launch.P50), seconds.Short(max(g.Launch.P50, g.Launch.P95)), seconds.Short(g.Leave))
		if g.Interruptions.PerHour > 0 {
			text += fmt.Sprintf("; %g interruptions of a machine an hour, warned %s before", g.Interruptions.PerHour, seconds.Short(g.Interruptions.Warning))
		}
		add("Group "+id, text)
	}
	if p := f.Prices; p != nil {
		add("Prices", strings.Trim(p.Table+", "+p.SpotHistory, ", "))
	}
	add("Tick", seconds.Short(r.policies[0].config.Tick))
	add("Plots", "of the first seed; the bill of a machine is distributed over the time in which it was used")
	add("Seeds", fmt.Sprintf("%d from %d on", r.seeds, f.Run.Seed))
	if n := len(f.Events); n > 0 {
		add("Events", fmt.Sprintf("%d in the scenario", n))
	}
	return t
}

// notes lists what the numbers do not show.
func (r report) notes() (out []string) {
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

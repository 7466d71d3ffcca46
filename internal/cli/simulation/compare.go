package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/resource"
)

// measure is a row of the comparison.
type measure struct {
	name  string
	text  func(api.Simulated) string
	value func(api.Simulated) float64 // for the difference to the first policy; nil: without a difference
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
			t.Head = append(t.Head, display(s.Policy))
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
	short := []string{"Cost", "Unmet cpu-hours", "Longest wait", "Unused cpu-hours", "Machines launched"}
	all = slices.DeleteFunc(all, func(m measure) bool { return !slices.Contains(short, m.name) })
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
		row := []web.ReportCell{{Text: display(s.Policy)}}
		if s.Policy == r.chosen && r.goal != nil {
			row[0].Class = "strong"
		}
		for _, m := range all {
			c := cell(m, i)
			c.Text, _, _ = strings.Cut(c.Text, " · ")
			row = append(row, c)
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

// display returns the name of a policy for people: of a sweep without the block of each key.
func display(name string) string {
	return each(name, func(key, value string) string {
		_, key, _ = strings.Cut(key, ".")
		return key + "=" + value
	})
}

// shortName returns the values of a sweep.
func shortName(name string) string {
	return each(name, func(_, value string) string { return value })
}

// each changes each KEY=VALUE of the name of a policy of a sweep. Another name stays.
func each(name string, change func(key, value string) string) string {
	var parts []string
	for part := range strings.SplitSeq(name, ",") {
		key, value, found := strings.Cut(part, "=")
		if !found {
			return name
		}
		parts = append(parts, change(key, value))
	}
	return strings.Join(parts, ", ")
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
		t.Head = append(t.Head, display(r.policies[i].name))
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

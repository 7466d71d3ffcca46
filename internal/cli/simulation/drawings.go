package simulation

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

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
		out = append(out, drawing{"Unmet demand, " + k.String() + "; total in hours", 64, func(s simulate.Result) plot.Chart {
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
			return plot.Chart{Stack: []plot.Layer{layer(s, "g1", "exist", meanOf, func(c simulate.Column) float64 { return c.Existed })}}
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

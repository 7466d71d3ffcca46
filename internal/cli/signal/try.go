package signal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/metrics"
	metricsstore "github.com/weirkeeper/weirkeeper/metrics/store"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
	"github.com/weirkeeper/weirkeeper/signals/forecast"
)

// tryFlags are those of "weir signal try".
type tryFlags struct {
	requestFlags
	metric, kind string
	since        time.Duration
	setpoint     float64
}

func (cli *commands) tryCommand() *cobra.Command {
	a := tryFlags{kind: string(metrics.App)}
	cmd := &cobra.Command{
		Use:   "try forecast",
		Short: "Judge a forecast on the past of a metric",
		Long: `Judge a forecast on the past of a metric, as the built-in signal forecast does each six
hours. The command plays the last seven days as fleets of machines: with constant
headrooms, with a margin without a season, and with each season. Cost is the unused
capacity plus waiting_costs times the load that waits, in percent of the load. It
changes nothing.

The metric is read from the store, or with --metrics from recorded windows. Parameters
are those of the signal. Without time_zone the clock is UTC.`,
		Example: `  weir signal try forecast --app web --metric requests --since 28d
  weir signal try forecast --metric cpus_expected --type instance_counts --setpoint 0.9
  weir signal try forecast --metrics windows.jsonl --param launch=15m --param time_zone=Europe/Berlin`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := command.OneArg("signal")(cmd, args); err != nil {
				return err
			}
			if args[0] != "forecast" {
				return usage.New(fmt.Errorf(`signal %q does not judge its past: want forecast; "weir signal run --local" sends one request to a program`, args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.try(cmd.Context(), a, time.Now())
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&a.metric, "metric", "", "metric to forecast (default with --metrics: the only one)")
	f.StringVar(&a.kind, "type", a.kind, "app_metrics, system_metrics, metadata or instance_counts")
	f.Float64Var(&a.setpoint, "setpoint", 0.7, "setpoint of the pool")
	command.SinceVar(f, &a.since, "since", 28*24*time.Hour, "begin of the window")
	cli.OutputFlag(cmd)
	return cmd
}

func (cli *commands) try(ctx context.Context, a tryFlags, now time.Time) error {
	rule, err := a.rule()
	if err != nil {
		return usage.New(err)
	}
	if a.requestFlags.metrics != "" {
		w, name, now, err := a.recorded(cli)
		if err != nil {
			return err
		}
		return cli.printTrial(rule, name, w, now)
	}
	q, err := a.query(cli.Cluster, cli.Pool, now)
	if err != nil {
		return usage.New(err)
	}
	return cli.WithBus(ctx, func(ctx context.Context, b *bus.Bus) error {
		ctx, cancel := context.WithTimeout(ctx, windowTimeout)
		defer cancel()
		store, err := cli.MetricsStore(b, metricsstore.OperatorWriter)
		if err != nil {
			return err
		}
		found, err := store.Window(ctx, q)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", q.Name, err)
		case len(found) == 0:
			return fmt.Errorf("%s of type %s has no complete slot of %s in the last %s: check its name, or wait", q.Name, q.Type, seconds.Short(forecast.Step), seconds.Short(a.since))
		case len(found) > 1:
			return fmt.Errorf("%d series are named %s: name one with --app", len(found), q.Name)
		}
		s := found[0]
		return cli.printTrial(rule, metrics.Key(s.Name, s.Dimensions), forecast.Window{Times: s.Times, Values: s.Values}, now)
	})
}

// windowTimeout bounds the read of a window.
const windowTimeout = 30 * time.Second

// rule returns the rule of the flags.
func (a *tryFlags) rule() (forecast.Rule, error) {
	parameters, err := a.decodeParameters()
	if err != nil {
		return forecast.Rule{}, err
	}
	for name, value := range map[string]any{"time_zone": "UTC", "unit": map[string]any{"cpus": 1}} {
		if _, given := parameters[name]; !given {
			parameters[name] = value
		}
	}
	p, err := builtin.DecodeForecast(parameters)
	switch {
	case err != nil:
		return p.Rule, err
	case !(a.setpoint*forecast.MostHeadroom >= 1 && a.setpoint <= 1):
		return p.Rule, fmt.Errorf("--setpoint %g: want 0.34 to 1; below it a pool has room for three times its load, and needs no forecast", a.setpoint)
	}
	p.Rule.Headroom = 1 / a.setpoint
	return p.Rule, p.Rule.Validate()
}

// query returns the query of the metric, in slots.
func (a *tryFlags) query(cluster, pool string, now time.Time) (metrics.Query, error) {
	kind := metrics.Type(a.kind)
	q := metrics.Query{Type: kind, Name: a.metric, From: now.Add(-a.since), To: now, Resolution: forecast.Step}
	switch {
	case a.metric == "":
		return q, errors.New("--metric is missing: name the metric, or recorded windows with --metrics")
	case !slices.Contains(metrics.Types(), kind):
		return q, fmt.Errorf("--type %q: want one of %v", a.kind, metrics.Types())
	case kind == metrics.App && a.app == "":
		return q, errors.New("--app is missing: name the application of the metric")
	case kind == metrics.App && metrics.CheckApp(a.app) != nil:
		return q, fmt.Errorf("--app: %w", metrics.CheckApp(a.app))
	case kind == metrics.App:
		q.Name = metrics.AppName(a.app, a.metric)
	default:
		q.Dimensions = metrics.Dimensions{"cluster": cluster, "pool": pool}
		if a.app != "" {
			q.Dimensions["app"] = a.app
		}
	}
	return q, nil
}

// recorded returns the window of a file, and the end of its newest slot.
func (a *tryFlags) recorded(cli *commands) (w forecast.Window, name string, now time.Time, err error) {
	e, err := a.evaluation(cli)
	if err != nil {
		return w, "", now, err
	}
	found := map[string]signals.Series{}
	for _, s := range e.Series {
		found[s.Name] = signals.Series{Times: s.Times, Values: s.Values}
	}
	names := slices.Sorted(maps.Keys(found))
	name = a.metric
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	s, ok := found[name]
	if !ok {
		return w, "", now, usage.New(fmt.Errorf("--metric %q: %s has %s: name one of them", a.metric, a.requestFlags.metrics, cmp.Or(strings.Join(names, ", "), "no series")))
	}
	return forecast.Window{Times: s.Times, Values: s.Values}, name, time.Unix(e.Timestamp, 0).Add(forecast.Step), nil
}

// trial is what "weir signal try" prints as JSON.
type trial struct {
	Metric   string       `json:"metric"`
	Points   int          `json:"points"`
	At       time.Time    `json:"at"`
	On       bool         `json:"on"`
	Season   string       `json:"season,omitempty"`
	Days     int          `json:"days"`
	Why      string       `json:"why"`
	Load     *float64     `json:"load,omitempty"`     // the highest of the latest ten minutes
	Capacity *float64     `json:"capacity,omitempty"` // with a forecast
	Fleets   []trialFleet `json:"fleets"`
}

type trialFleet struct {
	Name     string  `json:"name"`
	Headroom float64 `json:"headroom"`
	Cost     float64 `json:"cost_percent"`
	Unused   float64 `json:"unused_percent"`
	Waiting  float64 `json:"waiting_percent"`
	Won      int     `json:"won_days"`
}

func (cli *commands) printTrial(rule forecast.Rule, name string, w forecast.Window, now time.Time) error {
	j := rule.Judge(w, now)
	a := rule.Forecast(w, now, j)
	t := trial{Metric: name, Points: len(w.Times), At: j.At, On: a.On, Season: j.Season, Days: j.Days, Why: a.Why, Fleets: []trialFleet{}}
	if !math.IsNaN(a.Now) {
		t.Load = &a.Now
	}
	if a.On {
		t.Capacity = &a.Capacity
	}
	for _, s := range j.Scores {
		t.Fleets = append(t.Fleets, trialFleet{s.Name, s.Headroom, s.Cost, s.Unused, s.Waiting, s.Won})
	}
	if cli.Output == "json" {
		return cli.PrintJSON(t)
	}
	out := cli.Stdout
	fmt.Fprintf(out, "metric   %s, %d points before %s UTC\n", name, t.Points, now.UTC().Format(time.DateTime))
	fmt.Fprintf(out, "rule     launch %s, setpoint %.3g, waiting costs %.3g, time zone %s\n", seconds.Short(rule.Launch), 1/rule.Headroom, rule.WaitingCosts, rule.Zone)
	if a.On {
		fmt.Fprintf(out, "answer   capacity %s for a load of %s: %s\n\n", explain.Number(a.Capacity), explain.Number(a.Now), a.Why)
	} else {
		fmt.Fprintf(out, "answer   no opinion: %s\n\n", a.Why)
	}
	if len(j.Scores) == 0 {
		return nil
	}
	fmt.Fprintf(out, "%d of the 7 days before %s UTC, younger days weigh more:\n", j.Days, j.At.UTC().Format("2006-01-02 15:04"))
	var rows [][]string
	for _, f := range t.Fleets {
		won := "-"
		if f.Name != "headroom" && f.Name != "margin" {
			won = fmt.Sprintf("%d of %d", f.Won, j.Days)
		}
		rows = append(rows, []string{f.Name, fmt.Sprintf("%.2f", f.Headroom), fmt.Sprintf("%.1f %%", f.Cost), fmt.Sprintf("%.1f %%", f.Unused), fmt.Sprintf("%.3g %%", f.Waiting), won})
	}
	cli.PrintTable([]string{"fleet", "headroom", "cost", "unused", "waiting", "days won"}, rows)
	fmt.Fprintf(out, "\nthe last day with %s, by the clock of %s: load (#), capacity (-), load that waits (!)\n%s", j.Season, rule.Zone, plotDay(rule.Replay(w, j), rule.Zone))
	return nil
}

const (
	plotColumns = 72 // of 20 minutes
	plotRows    = 10
)

// plotDay draws the last day. A column shows the slot with the least room in its time.
func plotDay(slots []forecast.Slot, zone *time.Location) string {
	const each = int(24 * time.Hour / forecast.Step / plotColumns)
	slots = slots[max(0, len(slots)-each*plotColumns):]
	var shown []forecast.Slot
	top := 0.0
	for part := range slices.Chunk(slots, each) {
		shown = append(shown, slices.MinFunc(part, func(a, b forecast.Slot) int { return cmp.Compare(room(a), room(b)) }))
		for _, x := range [2]float64{shown[len(shown)-1].Load, shown[len(shown)-1].Capacity} {
			if x > top { // not if it is unknown
				top = x
			}
		}
	}
	var b strings.Builder
	for row := plotRows; row > 0; row-- {
		low, high := top*float64(row-1)/plotRows, top*float64(row)/plotRows
		line := make([]byte, len(shown))
		for i, at := range shown {
			switch middle := (low + high) / 2; {
			case at.Load >= middle && at.Capacity < middle:
				line[i] = '!'
			case at.Load >= middle:
				line[i] = '#'
			case at.Capacity > low && at.Capacity <= high:
				line[i] = '-'
			default:
				line[i] = ' '
			}
		}
		fmt.Fprintf(&b, "%9.4g |%s\n", high, strings.TrimRight(string(line), " "))
	}
	if len(slots) > 0 {
		first := slots[0].At.In(zone)
		fmt.Fprintf(&b, "%9s +%s\n%9s  %-*s%s\n", "", strings.Repeat("-", len(shown)), "", max(len(shown)-5, 6), first.Format("15:04"), slots[len(slots)-1].At.Add(forecast.Step).In(zone).Format("15:04"))
	}
	return b.String()
}

// room returns the part of the capacity that the load leaves; negative: load waits. An unknown slot has most room.
func room(s forecast.Slot) float64 {
	if x := (s.Capacity - s.Load) / s.Capacity; !math.IsNaN(x) {
		return x
	}
	return math.Inf(1)
}

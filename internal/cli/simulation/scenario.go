package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// policy is one row of the result: a pool's file with overrides.
type policy struct {
	name   string // of its own
	config simulate.Policy
	parts  map[string]string // texts of its keys
	left   []string          // texts about advisors that do not run
	path   string
}

// maxInput bounds the bytes of a series.
const maxInput = 256 << 20

// scenario is a scenario file with the files that it names.
type scenario struct {
	file    config.Simulation
	dir     string
	counts  *simulate.Series // of the series, or the instances of the apps
	prices  *price.Prices
	samples []metrics.Sample // of the signals' metrics
	windows []metrics.Sample // recorded ones, with their dimensions
	start   time.Time
	length  time.Duration
}

// path returns the path of a file that the scenario names.
func (s scenario) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.dir, name)
}

func readScenario(path string) (s scenario, err error) {
	s.dir = filepath.Dir(path)
	if s.file, err = config.ReadSimulation(path); err != nil {
		return s, err
	}
	if s.counts, err = s.readDemand(); err != nil {
		return s, err
	}
	if p := s.file.Prices.Below(s.dir); p != nil {
		if s.prices, err = p.Read(); err != nil {
			return s, err
		}
	}
	if err = s.readSamples(); err != nil {
		return s, err
	}
	first, last := s.counts.Span()
	s.start = first
	if text := s.file.Run.Start; text != "" {
		if s.start, err = time.Parse(time.RFC3339, text); err != nil {
			return s, err
		}
	}
	if s.length = cmp.Or(s.file.Run.Duration, last.Sub(s.start)); s.length <= 0 {
		return s, fmt.Errorf("%s: simulate.duration is missing: the demand has no point after %s", path, s.start.Format(time.RFC3339))
	}
	return s, nil
}

// readDemand reads the series, or the instances of the apps.
func (s scenario) readDemand() (*simulate.Series, error) {
	read := func(name string, scale map[string]float64) (*simulate.Series, error) {
		data, err := inputfile.Read(s.path(name), maxInput)
		if err != nil {
			return nil, err
		}
		return simulate.ReadSeries(name, data, scale)
	}
	if series := s.file.Demand.Series; series != nil {
		out, err := read(series.File, series.Scale)
		if err == nil && out.Counted() {
			return nil, fmt.Errorf("%s:1: column instances is of demand.apps, and the demand is a series: remove the column, or list the apps with what one copy takes", series.File)
		}
		if err == nil {
			out.Linear, out.Linger = series.Between == "linear", s.file.Demand.Linger
		}
		return out, err
	}
	out := simulate.NewSeries()
	at, _ := time.Parse(time.RFC3339, s.file.Run.Start) // the file is valid
	for _, app := range s.file.Demand.Apps {
		if app.Instances != nil {
			if err := out.AddInstances(app.Name, at, *app.Instances); err != nil {
				return nil, err
			}
			continue
		}
		one, err := read(app.File, nil)
		if err != nil {
			return nil, err
		}
		if err := out.Adopt(app.Name, one); err != nil {
			return nil, fmt.Errorf("%s: %w", app.File, err)
		}
	}
	return out, nil
}

// policies returns the pool of the scenario, the other pool files, and a row for each combination of the sweeps.
func (s scenario) policies(with, set, sweep []string) ([]policy, error) {
	var all []config.Assignment
	for _, text := range set {
		key, value, _ := strings.Cut(text, "=")
		all = append(all, config.Assignment{Key: key, Value: value})
	}
	var out []policy
	for _, path := range append([]string{s.path(s.file.Run.Pool)}, with...) {
		p, err := s.readPool(path, all...)
		if err != nil {
			return nil, err
		}
		p.config, p.left = simulate.WithoutReleases(p.config)
		if slices.ContainsFunc(out, func(o policy) bool { return o.name == p.name }) {
			p.name = path
		}
		out = append(out, p)
	}
	if len(sweep) == 0 {
		return out, nil
	}
	if len(out) > 1 {
		return nil, errors.New("--sweep and --with are given: give one of them")
	}
	each, err := combinations(sweep)
	if err != nil {
		return nil, err
	}
	base := out[0]
	out = nil
	for _, values := range each {
		p, err := s.readPool(base.path, append(all[:len(all):len(all)], values...)...)
		if err != nil {
			return nil, err
		}
		var names []string
		for _, v := range values {
			names = append(names, v.Key+"="+v.Value)
		}
		p.name = strings.Join(names, ",")
		p.config, p.left = simulate.WithoutReleases(p.config)
		out = append(out, p)
	}
	return out, nil
}

// readPool returns the policy of a pool's file with other values, as an autoscaler has it. Signals without a program are direct: they have no windows.
func (s scenario) readPool(path string, set ...config.Assignment) (policy, error) {
	p := policy{name: strings.TrimSuffix(filepath.Base(path), ".yaml"), path: path}
	cluster := filepath.Dir(path)
	service, err := config.LoadService(filepath.Dir(cluster))
	if err != nil {
		return p, err
	}
	pool, err := config.ReadPoolWith(path, "simulation", p.name, set)
	if err != nil {
		return p, err
	}
	c := config.Autoscaler(service, pool)
	c.Default.Windows, c.Default.Name = nil, cmp.Or(c.Default.Name, "direct")
	c.Default.TimeLimit = 0 // a tick waits for each response, so that the speed of the host has no effect
	for i := range c.Apps {
		app := &c.Apps[i]
		app.TimeLimit = 0
		if _, real := s.file.Signals[app.App]; !real {
			app.Windows = nil
		}
		for j := range app.Raise {
			app.Raise[j].Windows, app.Raise[j].TimeLimit = nil, 0
		}
	}
	p.config, p.parts = c, config.Parts(service, pool)
	return p, nil
}

// of returns the scenario of a policy and a seed, with work of its own.
func (s scenario) of(p policy, seed int) (simulate.Scenario, error) {
	out := simulate.Scenario{
		Seed: uint64(seed), Start: s.start, Ticks: max(1, int(s.length/p.config.Tick)), Pool: p.config, Delay: s.file.Run.Delay, Headroom: s.file.Run.Headroom,
		Prices: s.prices, Billing: price.Linux(),
	}
	out.History, _ = s.counts.Span()
	if b := s.file.Billing; b != nil {
		out.Billing = price.Billing{Minimum: b.Minimum, Unit: b.Unit, FreeFirstHour: b.FreeFirstHour}
	}
	for _, id := range slices.Sorted(maps.Keys(s.file.Groups)) {
		out.Groups = append(out.Groups, groupOf(id, s.file.Groups[id]))
	}
	for _, e := range s.file.Events {
		out.Events = append(out.Events, eventOf(e, s.start))
	}
	if s.file.Demand.Series != nil {
		out.Work = s.counts.Fresh()
		return out, nil
	}
	var apps []simulate.App
	for _, a := range s.file.Demand.Apps {
		apps = append(apps, simulate.App{Name: a.Name, Copy: resource.Vector{a.CPUs, a.Mem, a.Disk, a.GPUs}, StartsIn: a.StartsIn})
	}
	work, err := simulate.NewApps(p.config.Pool, s.counts.Fresh(), apps...)
	out.Work = work
	return out, err
}

func groupOf(id string, g config.SimulatedGroup) simulate.Group {
	m := g.Machine
	return simulate.Group{
		ID: id, Min: g.Min, Max: g.Max, Target: max(g.Target, g.Min), Weight: cmp.Or(g.Weight, 1), Machine: resource.Vector{m.CPUs, m.Mem, m.Disk, m.GPUs},
		Market: price.Market{Type: g.Market.Type, Zone: g.Market.Zone, Spot: g.Market.Spot},
		Launch: simulate.Delay{P50: g.Launch.P50, P95: g.Launch.P95}, Pending: g.Launch.Pending, Leave: g.Leave,
		Interruptions: g.Interruptions.PerHour, Warning: g.Interruptions.Warning,
	}
}

func eventOf(e config.SimulatedEvent, start time.Time) simulate.Event {
	out := simulate.Event{At: e.At, For: e.For, Group: e.Group, Zone: e.Zone, Stock: e.Stock, Lost: e.Lost, Silent: e.SignalsFail}
	if e.Order == nil {
		return out
	}
	note := api.Note{By: "the scenario", At: start.Add(e.At)}
	out.Orders = &api.Orders{}
	if e.Order.Pause {
		out.Orders.Pause = &note
	}
	if e.Order.Pin != nil {
		out.Orders.Pin = &api.Pin{Note: note, Target: *e.Order.Pin}
	}
	if e.Order.Offset != nil {
		out.Orders.Offset = &api.Offset{Note: note, Weight: *e.Order.Offset}
	}
	return out
}

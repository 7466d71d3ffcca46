package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Simulation is the scenario file of "weir simulate". Paths in it are relative to its folder.
type Simulation struct {
	Run     SimulatedRun               `yaml:"simulate"`
	Demand  SimulatedDemand            `yaml:"demand"`
	Signals map[string]SimulatedSignal `yaml:"signals"` // by app: its real program; the others report the demand
	Groups  map[string]SimulatedGroup  `yaml:"groups"`  // by the id of a group
	Events  []SimulatedEvent           `yaml:"events"`
	Prices  *Prices                    `yaml:"prices"`
	Billing *SimulatedBilling          `yaml:"billing"`

	document document
}

// SimulatedRun names the pool and the time of a simulation.
type SimulatedRun struct {
	Pool     string        `yaml:"pool"`     // path of the pool's file
	Start    string        `yaml:"start"`    // RFC 3339; empty: the first point of the demand
	Duration time.Duration `yaml:"duration"` // 0: to the last point of the demand
	Seed     int           `yaml:"seed"`
	Seeds    int           `yaml:"seeds"` // that many seeds from Seed on; 0: 1
	// Delay is the age of the demand that the signals report, and Headroom a factor of it; 0: 1.
	Delay    time.Duration `yaml:"delay"`
	Headroom float64       `yaml:"headroom"`
}

// SimulatedDemand is the work: a series or apps.
type SimulatedDemand struct {
	Series *SimulatedSeries `yaml:"series"`
	Apps   []SimulatedApp   `yaml:"apps"`
	Linger time.Duration    `yaml:"linger"` // how long a cordoned machine keeps its part of a series
}

// SimulatedSeries is a CSV file with the columns time, app, cpus, mem, disk, gpus and instances.
type SimulatedSeries struct {
	File    string             `yaml:"file"`
	Between string             `yaml:"between"` // linear or step; empty: step
	Scale   map[string]float64 `yaml:"scale"`   // factor of a column
	// Metrics has the metric of each kind of resource: then File has the lines of "weir metrics get --output json".
	Metrics map[string]string `yaml:"metrics"`
}

// SimulatedApp is an application in copies.
type SimulatedApp struct {
	Name      string        `yaml:"name"`
	CPUs      float64       `yaml:"cpus"` // of one copy
	Mem       float64       `yaml:"mem"`
	Disk      float64       `yaml:"disk"`
	GPUs      float64       `yaml:"gpus"`
	StartsIn  time.Duration `yaml:"starts_in"`
	Instances *int          `yaml:"instances"` // a constant number
	File      string        `yaml:"file"`      // a CSV file with the columns time and instances
}

// SimulatedSignal is the real signal of an app. Its windows and parameters are those of the pool's file.
type SimulatedSignal struct {
	Program []string      `yaml:"program"` // path and arguments
	Release string        `yaml:"release"` // in place of Program: NAMESPACE/NAME@VERSION in the bucket of releases
	Metrics string        `yaml:"metrics"` // a CSV file with the column time and a column for each metric of the app, or the lines of "weir metrics get --output json"
	Limit   time.Duration `yaml:"limit"`   // real time of one response; 0: 10 s
}

// SimulatedGroup is a group of equal machines.
type SimulatedGroup struct {
	Market  SimulatedMarket  `yaml:"market"`
	Machine SimulatedMachine `yaml:"machine"`
	Weight  float64          `yaml:"weight"` // 0: 1
	Min     int              `yaml:"min"`
	Max     int              `yaml:"max"` // 0: no upper bound
	Target  int              `yaml:"target"`
	Launch  SimulatedLaunch  `yaml:"launch"`
	Leave   time.Duration    `yaml:"leave"`
	// Interruptions are those by the provider.
	Interruptions SimulatedInterruptions `yaml:"interruptions"`
	// Failures are machines that stop to report and to work, until node health replaces them.
	Failures SimulatedFailures `yaml:"failures"`
}

// SimulatedFailures are the failures of one machine, by hour.
type SimulatedFailures struct {
	PerHour float64 `yaml:"per_hour"`
}

// SimulatedMarket is what the machines of a group are bought as.
type SimulatedMarket struct {
	Type string `yaml:"type"`
	Zone string `yaml:"zone"`
	Spot bool   `yaml:"spot"`
}

// SimulatedMachine is what one machine offers.
type SimulatedMachine struct {
	CPUs float64 `yaml:"cpus"`
	Mem  float64 `yaml:"mem"`
	Disk float64 `yaml:"disk"`
	GPUs float64 `yaml:"gpus"`
}

// SimulatedLaunch is the time from a request until the machine has joined. Pending is the part that is not billed.
type SimulatedLaunch struct {
	P50     time.Duration `yaml:"p50"`
	P95     time.Duration `yaml:"p95"`
	Pending time.Duration `yaml:"pending"`
}

// SimulatedInterruptions are the interruptions of one machine, by hour, with the time of the warning before.
type SimulatedInterruptions struct {
	PerHour float64       `yaml:"per_hour"`
	Warning time.Duration `yaml:"warning"`
}

// SimulatedEvent is a change from outside.
type SimulatedEvent struct {
	At    time.Duration `yaml:"at"`
	For   time.Duration `yaml:"for"` // 0: until the end
	Group string        `yaml:"group"`
	Zone  string        `yaml:"zone"`
	Stock *float64      `yaml:"stock"`
	Lost  bool          `yaml:"lost"`
	// SignalsFail lets all signals fail.
	SignalsFail bool            `yaml:"signals_fail"`
	Order       *SimulatedOrder `yaml:"order"`
}

// SimulatedOrder is an order of an operator.
type SimulatedOrder struct {
	Pause  bool     `yaml:"pause"`
	Pin    *float64 `yaml:"pin"`
	Offset *float64 `yaml:"offset"`
}

// SimulatedBilling has the rules of a bill. Without the block they are those for Linux on AWS.
type SimulatedBilling struct {
	Minimum       time.Duration `yaml:"minimum"`
	Unit          time.Duration `yaml:"unit"`
	FreeFirstHour bool          `yaml:"free_first_hour"`
}

// ReadSimulation reads a scenario file.
func ReadSimulation(path string) (Simulation, error) {
	file, err := readFile(path)
	if err != nil {
		return Simulation{}, err
	}
	var s Simulation
	doc, err := decodeRest(path, file.Text, &s)
	if err != nil {
		return Simulation{}, err
	}
	s.document = doc
	return s, doc.complete(s.problems().OrNil())
}

// Problem returns an error for a key of the file, with its line.
func (s Simulation) Problem(path, what string) error { return s.document.problem(path, what) }

// problems returns the mistakes of single values. The simulation checks the rest.
func (s Simulation) problems() (ps Problems) {
	add := func(wrong bool, path, what string) {
		if wrong {
			ps = append(ps, s.document.problem(path, what))
		}
	}
	add(s.Run.Pool == "", "simulate.pool", "is missing: want the path of the pool's file")
	_, err := time.Parse(time.RFC3339, s.Run.Start)
	add(s.Run.Start != "" && err != nil, "simulate.start", "is no time: want one as 2026-03-01T00:00:00Z")
	add(s.Run.Seed < 0 || s.Run.Seeds < 0 || s.Run.Seeds > 1000, "simulate.seeds", "or seed is out of range: want 0 to 1000 seeds, from 0 on")
	add((s.Demand.Series == nil) == (len(s.Demand.Apps) == 0), "demand", "want one of series and apps")
	if one := s.Demand.Series; one != nil {
		add(one.File == "", "demand.series.file", "is missing: want the path of a CSV file")
		for _, kind := range slices.Sorted(maps.Keys(one.Metrics)) {
			_, err := resource.ParseKind(kind)
			add(err != nil || one.Metrics[kind] == "", "demand.series.metrics", fmt.Sprintf("has %s: want cpus, mem, disk or gpus, with the name of a metric", kind))
		}
		for _, kind := range slices.Sorted(maps.Keys(one.Scale)) {
			add(len(one.Metrics) > 0 && (one.Metrics[kind] == "" || !(one.Scale[kind] > 0 && one.Scale[kind] <= 1e9)), "demand.series.scale", fmt.Sprintf("has %s: want a kind of metrics, and a factor above 0", kind))
		}
		add(one.Between != "" && one.Between != "linear" && one.Between != "step", "demand.series.between", fmt.Sprintf("is %q: want linear or step", one.Between))
	}
	for i, app := range s.Demand.Apps {
		path := fmt.Sprintf("demand.apps[%d]", i)
		add((app.Instances == nil) == (app.File == ""), path, "want one of instances and file")
		add(len(s.Demand.Apps) > 1 && app.File != "" && s.Run.Start == "", "simulate.start", "is missing: several apps need it")
	}
	for _, app := range slices.Sorted(maps.Keys(s.Signals)) {
		one := s.Signals[app]
		add((len(one.Program) == 0 || one.Program[0] == "") == (one.Release == ""), "signals."+app, "want one of program, the path of the signal's program, and release, NAMESPACE/NAME@VERSION")
		add(one.Metrics == "", "signals."+app+".metrics", "is missing: want the path of a file with the metrics of the app")
		add(one.Limit < 0, "signals."+app+".limit", "is negative")
	}
	add(len(s.Groups) == 0, "groups", "is missing: want the machines of each group of the pool")
	for _, id := range slices.Sorted(maps.Keys(s.Groups)) {
		g := s.Groups[id]
		add(g.Machine == SimulatedMachine{}, "groups."+id+".machine", "is missing: want what one machine offers")
		add(g.Weight < 0, "groups."+id+".weight", "is negative")
		ps = append(ps, s.groupProblems("groups."+id, g)...)
	}
	for i, e := range s.Events {
		ps = append(ps, s.eventProblems(fmt.Sprintf("events[%d]", i), e)...)
	}
	return append(ps, s.Prices.problems(s.document)...)
}

// groupProblems returns the mistakes in the limits and times of a group.
func (s Simulation) groupProblems(path string, g SimulatedGroup) (ps Problems) {
	add := func(wrong bool, key, what string) {
		if wrong {
			ps = append(ps, s.document.problem(path+key, what))
		}
	}
	add(g.Min < 0, ".min", "is negative")
	add(g.Max < 0 || g.Max > 0 && g.Max < g.Min, ".max", fmt.Sprintf("is %d: want at least min, which is %d, or 0 for no bound", g.Max, g.Min))
	add(g.Target < 0 || g.Max > 0 && g.Target > g.Max, ".target", fmt.Sprintf("is %d: want min to max, which is %d", g.Target, g.Max))
	add(g.Launch.P50 < 0 || g.Launch.P95 < 0 || g.Launch.Pending < 0, ".launch", "has a negative time")
	add(g.Leave < 0, ".leave", "is negative")
	add(g.Interruptions.Warning < 0, ".interruptions.warning", "is negative")
	add(!(g.Interruptions.PerHour >= 0 && g.Interruptions.PerHour <= maxInterruptions), ".interruptions.per_hour", fmt.Sprintf("is %v: want 0 to %d", g.Interruptions.PerHour, maxInterruptions))
	add(!(g.Failures.PerHour >= 0 && g.Failures.PerHour <= maxInterruptions), ".failures.per_hour", fmt.Sprintf("is %v: want 0 to %d", g.Failures.PerHour, maxInterruptions))
	return ps
}

// maxInterruptions bounds the interruptions and the failures of one machine an hour.
const maxInterruptions = 1000

// eventProblems returns the mistakes in an event.
func (s Simulation) eventProblems(path string, e SimulatedEvent) (ps Problems) {
	add := func(wrong bool, what string) {
		if wrong {
			ps = append(ps, s.document.problem(path, what))
		}
	}
	_, known := s.Groups[e.Group]
	add(e.At < 0 || e.For < 0, "has a negative time: at counts from the start")
	add(e.Stock == nil && !e.Lost && !e.SignalsFail && e.Order == nil, "changes nothing: want stock, lost, signals_fail or order")
	add(e.Stock != nil && !(*e.Stock >= 0), "has a negative stock")
	add(e.Group != "" && !known, fmt.Sprintf("is of group %s, and the scenario has no such group", e.Group))
	zoned := e.Zone == ""
	for _, g := range s.Groups {
		zoned = zoned || g.Market.Zone == e.Zone
	}
	add(!zoned, fmt.Sprintf("is of zone %s, and no group of the scenario is in it", e.Zone))
	return ps
}

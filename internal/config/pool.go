package config

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Pool is a pool file.
type Pool struct {
	Cluster string `yaml:"-"`
	Name    string `yaml:"-"`

	Groups      []Group     `yaml:"resource_groups"`
	Limits      Limits      `yaml:"scaling_limits"`
	Autoscaling Autoscaling `yaml:"autoscaling"`
	Signals     []Signal    `yaml:"autoscale_signals"`
	// Signal and OldSignal are other keys for one entry of Signals. Its default app is the pool's name. Both are nil
	// after loading.
	Signal    *Signal  `yaml:"autoscale_signal"`
	OldSignal *Signal  `yaml:"autoscaling_signal"`
	Draining  Draining `yaml:"draining"`
	Health    *Health  `yaml:"health"` // nil: nodes are not checked
	// Machines is what one machine of a group offers to copies, by group, if neither nodes nor provider show it.
	Machines map[string]Amounts `yaml:"machines"`
	Headroom []Headroom         `yaml:"headroom"`
	Windows  Windows            `yaml:"windows"`
	Rotation Rotation           `yaml:"rotation"`
	// Migration is Clusterman's form of a rotation. It is nil after loading.
	Migration *Migration `yaml:"node_migration"`
	Ledger    Ledger     `yaml:"ledger"`

	document document
}

// Limits bound the pool's target, in weight.
type Limits struct {
	Min        *Weight   `yaml:"min_capacity"`
	Max        *Weight   `yaml:"max_capacity"`
	MaxAdd     *Weight   `yaml:"max_weight_to_add"`
	MaxRemove  *Weight   `yaml:"max_weight_to_remove"`
	MaxTasks   TaskLimit `yaml:"max_tasks_to_kill"`
	MinUptimeS int       `yaml:"min_node_scalein_uptime_seconds"`
}

// Weight is a number of at least 0, or "inf", which is api.Unlimited.
type Weight float64

const weights = `a number of at least 0, or "inf"`

// UnmarshalYAML reads a number or "inf".
func (w *Weight) UnmarshalYAML(unmarshal func(any) error) error {
	var value any
	if err := unmarshal(&value); err != nil {
		return err
	}
	switch x := value.(type) {
	case uint64:
		*w = Weight(x)
	case int64:
		*w = Weight(x)
	case float64:
		*w = Weight(x)
		if math.IsInf(x, 1) {
			*w = api.Unlimited
		}
	case string:
		if x != "inf" {
			return &wantError{weights}
		}
		*w = api.Unlimited
	default:
		return &wantError{weights}
	}
	if math.IsNaN(float64(*w)) || math.IsInf(float64(*w), -1) {
		return &wantError{weights}
	}
	return nil
}

// TaskLimit is a number of tasks, or "inf". The zero value is 0.
type TaskLimit struct {
	N         int
	Unlimited bool
}

const taskLimits = `a whole number of at least 0, or "inf"`

// UnmarshalYAML reads a whole number or "inf".
func (l *TaskLimit) UnmarshalYAML(unmarshal func(any) error) error {
	var value any
	if err := unmarshal(&value); err != nil {
		return err
	}
	switch n, ok := value.(uint64); {
	case ok && n <= math.MaxInt32:
		*l = TaskLimit{N: int(n)}
	case value == "inf":
		*l = TaskLimit{Unlimited: true}
	default:
		return &wantError{taskLimits}
	}
	return nil
}

// Draining bounds how long a node may take to become empty.
type Draining struct {
	ThresholdS int   `yaml:"draining_time_threshold_seconds"` // default 1800
	Force      bool  `yaml:"force_terminate"`                 // afterwards: terminate the node; false: cancel the drain
	Spot       *bool `yaml:"process_spot_warnings"`           // default true
}

// FollowsWarnings reports whether the provider's warnings about instances are followed.
func (d Draining) FollowsWarnings() bool { return d.Spot == nil || *d.Spot }

// nameProblem checks a name; path is the name's.
func nameProblem(d document, path, name string) Problems {
	switch {
	case name == "":
		return Problems{d.problem(path, "is missing: "+names.Rule)}
	case !names.Valid(name):
		return Problems{d.problem(path, fmt.Sprintf("is %q: %s", name, names.Rule))}
	}
	return nil
}

func (p Pool) withDefaults() Pool {
	if p.Draining.ThresholdS == 0 && !p.document.given("draining.draining_time_threshold_seconds") {
		p.Draining.ThresholdS = int((30 * time.Minute).Seconds())
	}
	p.Rotation, p.Migration = p.Migration.rotation(p.Rotation), nil
	p.Signals = slices.Clone(p.Signals)
	for _, one := range []*Signal{p.Signal, p.OldSignal} {
		if one == nil {
			continue
		}
		signal := *one
		signal.App = firstOf(signal.App, p.Name)
		p.Signals = append(p.Signals, signal)
	}
	p.Signal, p.OldSignal = nil, nil
	for i := range p.Signals {
		p.Signals[i] = p.Signals[i].withDefaults()
		p.Signals[i].Raise = slices.Clone(p.Signals[i].Raise)
	}
	return p
}

// each returns all signals with their paths: one for each app, each followed by its advisors.
func (p Pool) each() iter.Seq2[string, Signal] {
	return func(yield func(string, Signal) bool) {
		for i, s := range p.Signals {
			path := p.signalPath(i)
			if !yield(path, s) {
				return
			}
			for j, a := range s.advisors() {
				if !yield(fmt.Sprintf("%s.raise[%d]", path, j), a) {
					return
				}
			}
		}
	}
}

// Programs returns the programs of all signals and advisors, by app: of an advisor "APP~NAME".
func (p Pool) Programs() map[string]Program {
	all := map[string]Program{}
	for _, s := range p.each() {
		all[s.App] = s.Program
	}
	return all
}

// program returns the program of the signal of an app, or of an advisor; nil: the file has none.
func (p Pool) program(app string) *Program {
	for i := range p.Signals {
		s := &p.Signals[i]
		if s.App == app {
			return &s.Program
		}
		for j := range s.Raise {
			if sigproto.AdvisorApp(s.App, s.Raise[j].Name) == app {
				return &s.Raise[j]
			}
		}
	}
	return nil
}

// pin completes the file's signals. Metrics and periods come from the file, so a pin for an app that the file lacks
// is a problem.
func (p Pool) pin(pins []Pin) error {
	var ps Problems
	for _, pin := range pins {
		if pin.App == sigproto.DefaultApp { // the service file's
			continue
		}
		s := p.program(pin.App)
		if s == nil {
			ps = append(ps, p.document.problem("autoscale_signals", fmt.Sprintf(
				"has no entry for app %q, which the environment gives %s/%s@%s: add one with its required_metrics", pin.App, pin.Namespace, pin.Name, pin.Version)))
			continue
		}
		if s.Pin() == "" && s.Kind != kindBuiltin {
			s.Version = pin.Version
		}
		if s.Name == "" {
			s.Name = pin.Name
		}
		if s.Namespace == "" {
			s.Namespace = pin.Namespace
		}
	}
	return ps.OrNil()
}

// Validate returns the Problems of p.
func (p Pool) Validate() error {
	d := p.document
	ps := p.Limits.problems(d)
	ps = append(ps, p.Autoscaling.problems(d)...)
	ps = append(ps, p.groupProblems()...)
	ps = append(ps, p.signalProblems()...)
	ps = append(ps, p.healthProblems()...)
	ps = append(ps, p.headroomProblems()...)
	ps = append(ps, p.Rotation.problems(p.document)...)
	ps = append(ps, p.Windows.problems(d)...)
	ps = append(ps, p.Ledger.problems(d)...)
	for _, group := range slices.Sorted(maps.Keys(p.Machines)) {
		ps = append(ps, p.Machines[group].problems(d, "machines."+group)...)
	}
	if p.Draining.ThresholdS < 1 {
		ps = append(ps, d.problem("draining.draining_time_threshold_seconds", fmt.Sprintf("is %d: want at least 1", p.Draining.ThresholdS)))
	}
	return ps.OrNil()
}

// signalKeys returns the keys of the file that have signals.
func (p Pool) signalKeys() (keys []string) {
	for _, key := range []string{"autoscale_signals", "autoscale_signal", "autoscaling_signal"} {
		if p.document.given(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// signalPath returns the path of signal i.
func (p Pool) signalPath(i int) string {
	path := fmt.Sprintf("autoscale_signals[%d]", i)
	if keys := p.signalKeys(); !p.document.given(path) && len(keys) > 0 {
		path = keys[len(keys)-1]
	}
	return path
}

func (p Pool) signalProblems() Problems {
	d := p.document
	var ps Problems
	ways := p.signalKeys()
	if len(ways) > 1 {
		ps = append(ps, d.problem(ways[1], "conflicts with "+ways[0]+": keep one"))
	}
	apps, addresses := map[string]bool{}, map[string]string{}
	for i, s := range p.Signals {
		path := p.signalPath(i)
		ps = append(ps, s.problems(d, path)...)
		if apps[s.App] {
			ps = append(ps, d.problem(path+".app", fmt.Sprintf("%q has a signal already: one signal for each app", s.App)))
		}
		apps[s.App] = true
	}
	for path, s := range p.each() {
		if s.Name == "" {
			continue
		}
		address := sigproto.Address(s.Namespace, s.Name, s.App)
		if other, taken := addresses[address]; taken && other != s.App {
			ps = append(ps, d.problem(path+".name", fmt.Sprintf("makes socket @%s, as the signal of app %s does: choose another app or namespace", address, other)))
		}
		addresses[address] = s.App
	}
	return ps
}

func (l Limits) problems(d document) Problems {
	var ps Problems
	at := func(key, what string) { ps = append(ps, d.problem("scaling_limits."+key, what)) }
	for _, e := range []struct {
		key   string
		value *Weight
	}{{"min_capacity", l.Min}, {"max_capacity", l.Max}, {"max_weight_to_add", l.MaxAdd}, {"max_weight_to_remove", l.MaxRemove}} {
		switch {
		case e.value == nil:
			at(e.key, "is missing: want "+weights)
		case *e.value < 0:
			at(e.key, fmt.Sprintf("is %v: want at least 0", float64(*e.value)))
		case e.value == l.Min && *e.value == api.Unlimited:
			at(e.key, "is inf: want a number")
		case *e.value == 0 && e.value == l.MaxAdd:
			at(e.key, "is 0: want above 0, or the pool never grows")
		}
	}
	if l.Min != nil && l.Max != nil && *l.Min > *l.Max {
		at("min_capacity", fmt.Sprintf("is %v, above max_capacity %v on line %d: want min_capacity <= max_capacity",
			*l.Min, *l.Max, d.lines.Near("scaling_limits.max_capacity")))
	}
	if l.MinUptimeS < -1 {
		at("min_node_scalein_uptime_seconds", fmt.Sprintf("is %d: want seconds, or -1 for none", l.MinUptimeS))
	}
	return ps
}

// FileOf returns the path of the pool's file below the configuration folder.
func FileOf(cluster, pool string) string {
	return strings.Join([]string{cluster, pool + ".yaml"}, "/")
}

// Ledger bounds the recorded ticks of a pool. NATS removes the oldest beyond either bound. The bounds apply when the
// ledger is created: an existing one keeps its settings.
type Ledger struct {
	MaxAge   time.Duration `yaml:"max_age"`   // 0: 14 days
	MaxBytes Size          `yaml:"max_bytes"` // of the packed records; 0: 512 MiB
	// Summaries bound the summaries of the ticks; 0: 90 days and 2560 MiB.
	Summaries Kept `yaml:"summaries"`
}

// Kept bounds what a stream stores.
type Kept struct {
	MaxAge   time.Duration `yaml:"max_age"`
	MaxBytes Size          `yaml:"max_bytes"`
}

const (
	leastLedgerAge        = time.Hour
	leastLedgerBytes Size = 64 << 20 // two records of the greatest size
	mostLedgerBytes  Size = 1 << 40
)

// Streams returns the bounds of the pool's streams.
func (p Pool) Streams() streams.Pool {
	return streams.Pool{
		Name: p.Name, LedgerAge: p.Ledger.MaxAge, LedgerBytes: int64(p.Ledger.MaxBytes),
		SummaryAge: p.Ledger.Summaries.MaxAge, SummaryBytes: int64(p.Ledger.Summaries.MaxBytes),
	}
}

func (l Ledger) problems(d document) Problems {
	return append(Kept{l.MaxAge, l.MaxBytes}.problems(d, "ledger"), l.Summaries.problems(d, "ledger.summaries")...)
}

// problems returns the mistakes of the block with that key.
func (k Kept) problems(d document, block string) (ps Problems) {
	if key := block + ".max_age"; (k.MaxAge != 0 || d.given(key)) && (k.MaxAge < leastLedgerAge || k.MaxAge > longestSpan) {
		ps = append(ps, d.problem(key, fmt.Sprintf("is %s: want %s to %s", seconds.Short(k.MaxAge), seconds.Short(leastLedgerAge), seconds.Short(longestSpan))))
	}
	if key := block + ".max_bytes"; (k.MaxBytes != 0 || d.given(key)) && (k.MaxBytes < leastLedgerBytes || k.MaxBytes > mostLedgerBytes) {
		ps = append(ps, d.problem(key, fmt.Sprintf("is %d bytes: want 64MiB to 1024GiB", k.MaxBytes)))
	}
	return ps
}

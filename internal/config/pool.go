package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
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
	// Signal is another way to write one entry of Signals. Its app is the pool's
	// name, if it names none. It is nil when the file is read.
	Signal   *Signal  `yaml:"autoscale_signal"`
	Draining Draining `yaml:"draining"`

	document document
}

// Group is one resource group. Exactly one of its kinds is set.
type Group struct {
	Local *LocalGroup `yaml:"local"`
}

// LocalGroup is a group of machines that are agent processes on this host.
type LocalGroup struct {
	Name    string  `yaml:"name"`
	Min     int     `yaml:"min"`
	Max     int     `yaml:"max"`
	Machine Machine `yaml:"machine"`
}

// Machine is what a local machine declares to have. Its weight is 1.
type Machine struct {
	CPUs float64 `yaml:"cpus"`
	Mem  float64 `yaml:"mem"`  // MB
	Disk float64 `yaml:"disk"` // MB
	GPUs float64 `yaml:"gpus"`
}

// Limits bound the pool's target, in weight.
type Limits struct {
	Min        *float64  `yaml:"min_capacity"`
	Max        *float64  `yaml:"max_capacity"`
	MaxAdd     *float64  `yaml:"max_weight_to_add"`
	MaxRemove  *float64  `yaml:"max_weight_to_remove"`
	MaxTasks   TaskLimit `yaml:"max_tasks_to_kill"`
	MinUptimeS int       `yaml:"min_node_scalein_uptime_seconds"`
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

// Draining says how long a node may take to become empty.
type Draining struct {
	ThresholdS int  `yaml:"draining_time_threshold_seconds"` // default 1800
	Force      bool `yaml:"force_terminate"`                 // then: terminate, else take back
}

// nameProblem returns what is wrong with a name; path is its own.
func nameProblem(d document, path, name string) Problems {
	switch {
	case name == "":
		return Problems{d.problem(path, "is missing: "+nameRule)}
	case !message.ValidName(name):
		return Problems{d.problem(path, fmt.Sprintf("is %q: %s", name, nameRule))}
	}
	return nil
}

const nameRule = "want letters, digits, - and _, at most 63, beginning with a letter or digit"

func (p Pool) withDefaults() Pool {
	if p.Draining.ThresholdS == 0 && !p.document.given("draining.draining_time_threshold_seconds") {
		p.Draining.ThresholdS = int((30 * time.Minute).Seconds())
	}
	p.Signals = slices.Clone(p.Signals)
	if p.Signal != nil {
		one := *p.Signal
		if one.App == "" {
			one.App = p.Name
		}
		p.Signals, p.Signal = append(p.Signals, one), nil
	}
	return p
}

// pin fills what the file leaves open of its signals. Metrics and periods come
// from the file, so a pin for an app that it does not list is of no use.
func (p Pool) pin(pins []Pin) error {
	var ps Problems
	for _, pin := range pins {
		i := slices.IndexFunc(p.Signals, func(s Signal) bool { return s.App == pin.App })
		if i < 0 {
			ps = append(ps, p.document.problem("autoscale_signals", fmt.Sprintf(
				"has no entry for app %q, which the environment gives %s/%s@%s: add one with its required_metrics", pin.App, pin.Namespace, pin.Name, pin.Version)))
			continue
		}
		s := &p.Signals[i]
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
	return ps.orNil()
}

// Validate returns the Problems of p.
func (p Pool) Validate() error {
	d := p.document
	ps := p.Limits.problems(d)
	ps = append(ps, p.Autoscaling.problems(d)...)
	ps = append(ps, p.groupProblems()...)
	ps = append(ps, p.signalProblems()...)
	if p.Draining.ThresholdS < 1 {
		ps = append(ps, d.problem("draining.draining_time_threshold_seconds", fmt.Sprintf("is %d: want at least 1", p.Draining.ThresholdS)))
	}
	return ps.orNil()
}

func (p Pool) signalProblems() Problems {
	d := p.document
	var ps Problems
	if d.given("autoscale_signal") && d.given("autoscale_signals") {
		ps = append(ps, d.problem("autoscale_signal", "stands beside autoscale_signals: make it one of them"))
	}
	apps, addresses := map[string]bool{}, map[string]string{}
	for i, s := range p.Signals {
		path := fmt.Sprintf("autoscale_signals[%d]", i)
		if !d.given(path) && d.given("autoscale_signal") {
			path = "autoscale_signal"
		}
		ps = append(ps, s.problems(d, path)...)
		if apps[s.App] {
			ps = append(ps, d.problem(path+".app", fmt.Sprintf("%q has a signal already: one signal for each app", s.App)))
		}
		apps[s.App] = true
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

func (p Pool) groupProblems() Problems {
	d := p.document
	if len(p.Groups) == 0 {
		return Problems{d.problem("resource_groups", "is missing: a pool without groups has no machines")}
	}
	var ps Problems
	seen := map[string]bool{}
	for i, g := range p.Groups {
		path := fmt.Sprintf("resource_groups[%d]", i)
		if g.Local == nil {
			ps = append(ps, d.problem(path, "names no group: want local"))
			continue
		}
		ps = append(ps, g.Local.problems(d, path+".local")...)
		if seen[g.Local.Name] {
			ps = append(ps, d.problem(path+".local.name", fmt.Sprintf("%q stands here twice", g.Local.Name)))
		}
		seen[g.Local.Name] = true
	}
	return ps
}

func (g LocalGroup) problems(d document, path string) Problems {
	ps := nameProblem(d, path+".name", g.Name)
	if g.Min < 0 || g.Max < 1 || g.Min > g.Max {
		ps = append(ps, d.problem(path+".max", fmt.Sprintf("min %d and max %d: want 0 <= min <= max, and max at least 1", g.Min, g.Max)))
	}
	if g.Machine.CPUs <= 0 || g.Machine.Mem <= 0 || g.Machine.Disk < 0 || g.Machine.GPUs < 0 {
		ps = append(ps, d.problem(path+".machine", "want cpus and mem above 0, disk and gpus at least 0"))
	}
	return ps
}

func (l Limits) problems(d document) Problems {
	var ps Problems
	at := func(key, what string) { ps = append(ps, d.problem("scaling_limits."+key, what)) }
	for _, e := range []struct {
		key   string
		value *float64
	}{{"min_capacity", l.Min}, {"max_capacity", l.Max}, {"max_weight_to_add", l.MaxAdd}, {"max_weight_to_remove", l.MaxRemove}} {
		switch {
		case e.value == nil:
			at(e.key, "is missing: want a number of at least 0")
		case *e.value < 0:
			at(e.key, fmt.Sprintf("is %v: want at least 0", *e.value))
		case *e.value == 0 && e.value == l.MaxAdd:
			at(e.key, "is 0: want above 0, or the pool never grows")
		}
	}
	if l.Min != nil && l.Max != nil && *l.Min > *l.Max {
		at("min_capacity", fmt.Sprintf("is %v, above max_capacity %v on line %d: want min_capacity <= max_capacity",
			*l.Min, *l.Max, d.line("scaling_limits.max_capacity")))
	}
	if l.MinUptimeS < -1 {
		at("min_node_scalein_uptime_seconds", fmt.Sprintf("is %d: want seconds, or -1 for none", l.MinUptimeS))
	}
	return ps
}

// FileOf returns the pool file's place below the configuration folder.
func FileOf(cluster, pool string) string {
	return strings.Join([]string{cluster, pool + ".yaml"}, "/")
}

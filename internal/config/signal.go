package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/source"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Signal is one app's signal in a pool file.
type Signal struct {
	App     string `yaml:"app"`
	Program `yaml:",inline"`
	HoldFor time.Duration `yaml:"hold_for"` // default: three periods
	// Internal is Clusterman's key for its signal of pending pods. Here it selects the shipped signal "pending".
	Internal bool `yaml:"internal"`
	// Raise are advisors: signals that may only raise the app's request.
	Raise []Program `yaml:"raise"`
}

// Program is the program of a signal, with its requests.
type Program struct {
	Namespace   string        `yaml:"namespace"` // default: the pool's name
	Name        string        `yaml:"name"`      // empty: the app uses the default signal
	Version     string        `yaml:"version"`
	BranchOrTag string        `yaml:"branch_or_tag"` // alias of version
	Period      time.Duration `yaml:"period"`
	PeriodMin   int           `yaml:"period_minutes"`
	TimeLimit   time.Duration `yaml:"time_limit"`  // of one evaluation; default: half a tick, 500 ms to 10 s
	MaxRequest  Amounts       `yaml:"max_request"` // upper bound of its answer
	Metrics     []Metric      `yaml:"required_metrics"`
	Parameters  Parameters    `yaml:"parameters"`
	Kind        string        `yaml:"kind"`         // plugin, exec or builtin; default: the release's kind
	DistinctApp *bool         `yaml:"distinct_app"` // default true: the socket is named by the third argument
	Limits      Process       `yaml:"limits"`
	Environment []string      `yaml:"environment"` // names of variables passed on from bootstrap's environment
	Shadow      *Shadow       `yaml:"shadow"`
}

// advisors returns the app's advisors as signals of their own.
func (s Signal) advisors() (all []Signal) {
	for _, a := range s.Raise {
		all = append(all, Signal{App: sigproto.AdvisorApp(s.App, a.Name), Program: a})
	}
	return all
}

// withDefaults returns s with Internal expanded.
func (s Signal) withDefaults() Signal {
	if !s.Internal || s.Name != "" {
		return s
	}
	s.Kind, s.Name = kindBuiltin, "pending"
	for _, what := range []string{"allocated", "pending"} {
		for _, k := range []resource.Kind{resource.CPUs, resource.Mem, resource.Disk} {
			s.Metrics = append(s.Metrics, Metric{Name: k.String() + "_" + what, Type: string(metrics.System), Range: 10 * time.Minute})
		}
	}
	return s
}

// Amounts has cores, MiB of memory, MiB of disk and GPUs. A missing key sets no amount.
type Amounts struct {
	CPUs *float64 `yaml:"cpus"`
	Mem  *float64 `yaml:"mem"`
	Disk *float64 `yaml:"disk"`
	GPUs *float64 `yaml:"gpus"`
}

func (a Amounts) byKind() map[resource.Kind]*float64 {
	return map[resource.Kind]*float64{resource.CPUs: a.CPUs, resource.Mem: a.Mem, resource.Disk: a.Disk, resource.GPUs: a.GPUs}
}

func (a Amounts) request() resource.Request {
	var r resource.Request
	for k, x := range a.byKind() {
		if x != nil {
			r = r.With(k, *x)
		}
	}
	return r
}

func (a Amounts) vector() (v resource.Vector) {
	for k, x := range a.byKind() {
		v[k] = orElse(x, 0)
	}
	return v
}

func (a Amounts) problems(d document, path string) Problems {
	var ps Problems
	for k, x := range a.byKind() {
		if x != nil && (math.IsNaN(*x) || *x <= 0) {
			ps = append(ps, d.problem(path+"."+k.String(), fmt.Sprintf("is %v: want a number above 0", *x)))
		}
	}
	return ps
}

// Metric is one window of a signal.
type Metric struct {
	Name     string        `yaml:"name"`
	Type     string        `yaml:"type"`
	Range    time.Duration `yaml:"range"`
	RangeMin int           `yaml:"minute_range"`
	MaxAge   time.Duration `yaml:"max_age"` // default: the range
	// Resolution divides the range into slots from midnight UTC on. Each slot is one point, the mean of its values. Default:
	// all points.
	Resolution time.Duration `yaml:"resolution"`
	App        string        `yaml:"app"`   // instance_counts only: this app, not the whole pool
	Regex      bool          `yaml:"regex"` // app_metrics only: name is a regular expression over the stored keys, "APP,NAME|DIMENSIONS"
	// Source is the name of a source in the service file; empty: the pool's store. The query has the form of its kind.
	Source string `yaml:"source"`

	source.Form `yaml:",inline"`
}

// Parameters are sent to the signal unchanged. The file has a map, or a list of maps of which later ones win.
type Parameters map[string]any

// UnmarshalYAML decodes either form.
func (p *Parameters) UnmarshalYAML(unmarshal func(any) error) error {
	var one map[string]any
	if err := unmarshal(&one); err == nil {
		*p = one
		return nil
	}
	var many []map[string]any
	if err := unmarshal(&many); err != nil {
		return &wantError{"a map, or a list of maps"}
	}
	out := Parameters{}
	for _, m := range many {
		maps.Copy(out, m)
	}
	*p = out
	return nil
}

func (m Metric) problems(d document, path string) Problems {
	var ps Problems
	if m.Name == "" {
		ps = append(ps, d.problem(path+".name", "is missing: want the metric's name"))
	}
	if m.Source != "" || m.Form != (source.Form{}) {
		ps = append(ps, m.sourceKeyProblems(d, path)...)
	} else if !slices.Contains(metrics.Types(), metrics.Type(m.Type)) {
		ps = append(ps, d.problem(path+".type", fmt.Sprintf("is %q: want one of %s", m.Type, metricTypes())))
	}
	if m.Regex {
		ps = append(ps, m.patternProblems(d, path)...)
	}
	if m.App != "" && m.Type != string(metrics.InstanceCounts) {
		ps = append(ps, d.problem(path+".app", "is only for type instance_counts: remove it"))
	}
	window := span{key: "range", value: m.Range, minutesKey: "minute_range", minutes: m.RangeMin, least: time.Second}
	if !window.given(d, path) {
		ps = append(ps, d.problem(path+".range", "is missing: want a duration such as 20m, or minute_range"))
	}
	ps = append(ps, window.problems(d, path)...)
	ps = append(ps, m.resolutionProblems(d, path)...)
	return append(ps, span{key: "max_age", value: m.MaxAge, least: time.Second}.problems(d, path)...)
}

func (m Metric) resolutionProblems(d document, path string) Problems {
	switch r := m.Resolution; {
	case r == 0 && !d.given(path+".resolution"):
	case r <= 0 || !metrics.ValidResolution(r):
		return Problems{d.problem(path+".resolution", fmt.Sprintf("is %s: want whole seconds that divide a day, such as 5m", seconds.Short(r)))}
	case m.Window() < 2*r:
		return Problems{d.problem(path+".resolution", fmt.Sprintf("is %s: the range has less than two of these slots", seconds.Short(r)))}
	case m.Age() < r:
		return Problems{d.problem(path+".max_age", fmt.Sprintf("is %s: want at least the resolution, %s, because a slot is sent after its end", seconds.Short(m.MaxAge), seconds.Short(r)))}
	}
	return nil
}

func (m Metric) patternProblems(d document, path string) Problems {
	if m.Type != string(metrics.App) {
		return Problems{d.problem(path+".regex", "is only for type app_metrics: remove it")}
	}
	if _, err := regexp.Compile(m.Name); err != nil {
		return Problems{d.problem(path+".name", fmt.Sprintf("is not a regular expression: %v", err))}
	}
	if len(m.Name) > metrics.MaxPattern {
		return Problems{d.problem(path+".name", fmt.Sprintf("has %d bytes: want at most %d", len(m.Name), metrics.MaxPattern))}
	}
	return nil
}

func metricTypes() string {
	var names []string
	for _, t := range metrics.Types() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// metricProblems checks a signal's windows; path is the signal's.
func metricProblems(d document, path string, list []Metric) Problems {
	var ps Problems
	type window struct{ name, kind, app string }
	seen := map[window]bool{}
	for i, m := range list {
		at := fmt.Sprintf("%s.required_metrics[%d]", path, i)
		ps = append(ps, m.problems(d, at)...)
		w := window{m.Name, m.Type, m.App}
		if seen[w] && m.Name != "" {
			ps = append(ps, d.problem(at+".name", fmt.Sprintf("%q is a duplicate: a signal has one window of a metric", m.Name)))
		}
		seen[w] = true
	}
	return ps
}

// problems checks that the parameters can be sent as JSON.
func (p Parameters) problems(d document, path string) Problems {
	if _, err := json.Marshal(p); err != nil {
		return Problems{d.problem(path+".parameters", fmt.Sprintf("cannot be sent to a signal as JSON: %v", err))}
	}
	return nil
}

func (s Signal) problems(d document, path string) Problems {
	ps := nameProblem(d, path+".app", s.App)
	ps = append(ps, span{key: "hold_for", value: s.HoldFor, least: shortestPeriod}.problems(d, path)...)
	seen := map[string]bool{}
	for i, a := range s.advisors() {
		at := fmt.Sprintf("%s.raise[%d]", path, i)
		ps = append(ps, a.programProblems(d, at)...)
		switch {
		case a.Name == "":
			ps = append(ps, d.problem(at+".name", "is missing: want the name of the advisor's signal"))
		case strings.Trim(a.Name, "0123456789") == "":
			ps = append(ps, d.problem(at+".name", fmt.Sprintf("is %q: want a name that is not a number", a.Name)))
		case seen[a.Name]:
			ps = append(ps, d.problem(at+".name", fmt.Sprintf("%q is an advisor of the app already: an app has one advisor of a name", a.Name)))
		}
		seen[a.Name] = true
	}
	return append(ps, s.programProblems(d, path)...)
}

// programProblems checks everything but the app of a signal or an advisor; path is its.
func (s Signal) programProblems(d document, path string) Problems {
	ps := append(Problems{}, periodOf(s.Period, s.PeriodMin).problems(d, path)...)
	ps = append(ps, timeLimitProblems(d, path, s.TimeLimit, s.Every(defaultPeriod))...)
	ps = append(ps, s.MaxRequest.problems(d, path+".max_request")...)
	ps = append(ps, metricProblems(d, path, s.Metrics)...)
	ps = append(ps, s.Parameters.problems(d, path)...)
	if s.Name == "" {
		if s.TimeLimit != 0 {
			ps = append(ps, d.problem(path+".time_limit", "bounds the evaluation of a signal of the app's own: add the signal's name, or remove it"))
		}
		if s.MaxRequest != (Amounts{}) {
			ps = append(ps, d.problem(path+".max_request", "bounds the answer of a signal of the app's own: add the signal's name, or remove it"))
		}
		return ps
	}
	ps = append(ps, s.Limits.problems(d, path+".limits")...)
	ps = append(ps, variableProblems(d, path+".environment", s.Environment)...)
	if s.Kind == kindBuiltin {
		ps = append(ps, s.builtinProblems(d, path)...)
	} else {
		ps = append(ps, s.releaseProblems(d, path)...)
		ps = append(ps, s.processProblems(d, path)...)
	}
	// Clusterman's form of one signal may have no windows. The calendar reads its parameters.
	if len(s.Metrics) == 0 && strings.HasPrefix(path, "autoscale_signals") && !s.isCalendar() {
		ps = append(ps, d.problem(path+".required_metrics", "is missing: a signal needs at least one window"))
	}
	return ps
}

// releaseProblems returns mistakes that prevent fetching or reaching the signal.
func (s Signal) releaseProblems(d document, path string) Problems {
	if s.Version != "" && s.BranchOrTag != "" {
		return Problems{d.problem(path+".version", "conflicts with branch_or_tag: keep one")}
	}
	if s.Pin() == "" {
		return Problems{d.problem(path+".version", "is missing: a signal is pinned to a published version, or is of kind builtin")}
	}
	ps := s.addressProblems(d, path)
	ref := release.Ref{Namespace: s.Namespace, Name: s.Name, Version: s.Pin()}
	if err := ref.Validate(); err != nil {
		ps = append(ps, d.problem(path+"."+s.invalidKey(), err.Error()))
	}
	return ps
}

func (s Signal) addressProblems(d document, path string) Problems {
	n := len(sigproto.Address(s.Namespace, s.Name, s.App))
	if n <= sigproto.MaxAddress {
		return nil
	}
	return Problems{d.problem(path+".name", fmt.Sprintf("makes a socket address of %d bytes, at most %d are possible: shorten namespace, name or app",
		n, sigproto.MaxAddress))}
}

// invalidKey returns the key of the first part that a release name cannot have.
func (s Signal) invalidKey() string {
	switch {
	case (release.Ref{Namespace: s.Namespace, Name: "x", Version: "x"}).Validate() != nil:
		return "namespace"
	case (release.Ref{Namespace: "x", Name: s.Name, Version: "x"}).Validate() != nil:
		return "name"
	case s.Version == "":
		return "branch_or_tag"
	}
	return "version"
}

// Pin returns the pinned version from either key.
func (s Program) Pin() string {
	if s.Version != "" {
		return s.Version
	}
	return s.BranchOrTag
}

// Every returns the period, or def without one.
func (s Program) Every(def time.Duration) time.Duration { return orDefault(s.Period, s.PeriodMin, def) }

// Every returns the period, or def without one.
func (s Default) Every(def time.Duration) time.Duration { return orDefault(s.Period, s.PeriodMin, def) }

// Window returns the range.
func (m Metric) Window() time.Duration { return orDefault(m.Range, m.RangeMin, 0) }

// Age returns the maximum age of the newest point.
func (m Metric) Age() time.Duration {
	if m.MaxAge > 0 {
		return m.MaxAge
	}
	return m.Window()
}

// timeLimitProblems checks the time limit of a signal with that period; path is the signal's. shortTimeLimits checks the
// lower bound of longer ticks.
func timeLimitProblems(d document, path string, limit, period time.Duration) Problems {
	if limit == 0 && !d.given(path+".time_limit") {
		return nil
	}
	least := ask.Config{}.Timeout() // of the shortest tick
	if limit < least || limit > period {
		return Problems{d.problem(path+".time_limit", fmt.Sprintf("is %s: want %s to the period of the signal, %s", seconds.Short(limit), seconds.Short(least), seconds.Short(period)))}
	}
	return nil
}

// shortTimeLimits returns the time limits below the default. The default depends on the tick, and so on both files.
// The errors are those of the files: a wrong tick or time limit is not compared.
func shortTimeLimits(s Service, p Pool, errService, errPool error) Problems {
	if s.document.unknown("autoscaling.tick", errService) || p.document.unknown("autoscaling.tick", errPool) {
		return nil
	}
	tick := tickOf(s, p)
	least := ask.Config{Tick: tick}.Timeout()
	var ps Problems
	check := func(d document, path string, limit time.Duration, err error) {
		if limit != 0 && limit < least && !d.unknown(path+".time_limit", err) {
			ps = append(ps, d.problem(path+".time_limit", fmt.Sprintf(
				"is %v: want at least %v, the default at a tick of %v; remove it, or choose a shorter autoscaling.tick", limit, least, tick)))
		}
	}
	check(s.document, "autoscale_signal", s.AutoscaleSig.TimeLimit, errService)
	for path, signal := range p.each() {
		check(p.document, path, signal.TimeLimit, errPool)
	}
	return ps
}

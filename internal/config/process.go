package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// kindBuiltin is the kind of a signal that weir ships. It has no version.
const kindBuiltin = "builtin"

// Process has the resource limits of a signal's process. 0 is unlimited.
type Process struct {
	Memory    *Size   `yaml:"memory"`        // default defaultMemory
	CPUs      float64 `yaml:"cpus"`          // shares of a core; default: no limit
	Processes *int    `yaml:"processes"`     // and threads; default defaultProcesses
	OpenFiles *int    `yaml:"open_files"`    // default defaultOpenFiles
	Address   Size    `yaml:"address_space"` // default: no limit
}

// Default limits. They are several times what a signal needs for a request with a day of metrics, and a small part of
// a host.
const (
	defaultProcesses = 256
	defaultOpenFiles = 1024
)

// limits returns the limits with defaults.
func (p Process) limits() bootstrap.Limits {
	return bootstrap.Limits{
		Memory: int64(orElse(p.Memory, defaultMemory)), CPUs: p.CPUs, Processes: orElse(p.Processes, defaultProcesses),
		OpenFiles: orElse(p.OpenFiles, defaultOpenFiles), AddressMB: int64(p.Address >> 20),
	}
}

func orElse[T any](value *T, fallback T) T {
	if value == nil {
		return fallback
	}
	return *value
}

// problems checks the limits; path is theirs.
func (p Process) problems(d document, path string) Problems {
	var ps Problems
	for key, bad := range map[string]bool{
		"cpus": p.CPUs < 0, "processes": orElse(p.Processes, 0) < 0, "open_files": orElse(p.OpenFiles, 0) < 0,
	} {
		if bad {
			ps = append(ps, d.problem(path+"."+key, "is negative: want at least 0, which is no limit"))
		}
	}
	if p.Address != 0 && p.Address < leastAddress {
		ps = append(ps, d.problem(path+".address_space",
			fmt.Sprintf("is %d bytes: want at least 1GiB, a Go program does not start in less", p.Address)))
	}
	return ps
}

// maxVariables bounds the environment variables of a signal.
const maxVariables = 64

// variableProblems checks a list of variables; path is the list's.
func variableProblems(d document, path string, names []string) Problems {
	var ps Problems
	if n := len(names); n > maxVariables {
		ps = append(ps, d.problem(path, fmt.Sprintf("has %d names: at most %d are possible", n, maxVariables)))
	}
	for i, name := range names {
		if !bootstrap.IsVariable(name) {
			ps = append(ps, d.problem(fmt.Sprintf("%s[%d]", path, i),
				fmt.Sprintf("is %q: want the name of a variable of bootstrap's environment, such as DATABASE_URL", name)))
		}
	}
	return ps
}

// variables returns sorted names without duplicates, separated by blanks.
func variables(names []string) string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), " ")
}

// Shadow is a version that runs beside the pinned one, without effect.
type Shadow struct {
	Version      string   `yaml:"version"`
	PromoteAfter int      `yaml:"promote_after"` // ticks; default 0: never
	Tolerance    *float64 `yaml:"tolerance"`     // default 0.05
}

// defaultTolerance is the relative difference from the pinned version's answer that counts as equal.
const defaultTolerance = 0.05

// leastAddress is the smallest address space in which a Go program starts.
const leastAddress Size = 1 << 30

// Size is a number of bytes. The file has a whole number and a unit.
type Size int64

const sizes = `a size such as "512MiB" or "2GB"`

var units = [...]struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}}

// UnmarshalYAML reads the number and the unit.
func (s *Size) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if err := unmarshal(&text); err != nil {
		return &wantError{sizes}
	}
	for _, unit := range units {
		digits, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/unit.bytes {
			break
		}
		*s = Size(n * unit.bytes)
		return nil
	}
	return &wantError{sizes}
}

// builtinProblems returns the keys that a shipped signal cannot have.
func (s Signal) builtinProblems(d document, path string) Problems {
	var ps Problems
	if !slices.Contains(builtin.Names(), s.Name) {
		ps = append(ps, d.problem(path+".name", fmt.Sprintf("is %q: weir ships %s", s.Name, strings.Join(builtin.Names(), ", "))))
	}
	for key, given := range map[string]bool{
		"version": s.Version != "", "branch_or_tag": s.BranchOrTag != "", "shadow": s.Shadow != nil,
	} {
		if given {
			ps = append(ps, d.problem(path+"."+key, "is not for kind builtin, whose version is that of weir: remove it"))
		}
	}
	if err := builtin.Check(s.Name, s.Parameters); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			ps = append(ps, d.problem(path+".parameters", line))
		}
	}
	if why, only := onlyAdvises(s.Name); only && sigproto.AppOf(s.App) == s.App {
		ps = append(ps, d.problem(path+".name", why))
	}
	if s.isCalendar() {
		ps = append(ps, s.calendarProblems(d, path)...)
	}
	if s.isForecast() {
		ps = append(ps, s.forecastProblems(d, path)...)
	}
	return append(ps, s.addressProblems(d, path)...)
}

// onlyAdvises returns whether a shipped signal can be an advisor only, and the problem of another use.
func onlyAdvises(name string) (why string, only bool) {
	without := map[string]string{"calendar": "outside of its periods", "forecast": "without a season"}[name]
	return fmt.Sprintf("is %s, which has no opinion %s, so the pool would never shrink: list it in raise of an app", name, without), without != ""
}

// calendarProblems checks the parameters of the calendar.
func (s Program) calendarProblems(d document, path string) (ps Problems) {
	c, problems := calendar.Decode(s.Parameters, time.LoadLocation)
	for _, p := range problems {
		ps = append(ps, d.problem(path+".parameters."+p.Path, p.What))
	}
	if problems == nil && c.NeedsRequest() && len(s.Metrics) == 0 {
		ps = append(ps, d.problem(path+".required_metrics", "is missing: times and plus need windows of KIND_expected or KIND_allocated, such as cpus_expected"))
	}
	return ps
}

// forecastProblems checks the window of the forecast.
func (s Program) forecastProblems(d document, path string) (ps Problems) {
	name, _ := s.Parameters["metric"].(string)
	name, _, _ = strings.Cut(name, "|") // a series of a window
	windows := 0
	for i, m := range s.Metrics {
		if name != "" && name != m.Name && !m.Regex {
			continue
		}
		windows++
		at := fmt.Sprintf("%s.required_metrics[%d]", path, i)
		if m.Window() < builtin.LeastHistory {
			ps = append(ps, d.problem(at+".range", fmt.Sprintf("is %s: want at least %s for a forecast, best 672h", seconds.Short(m.Window()), seconds.Short(builtin.LeastHistory))))
		}
		if m.Resolution <= 0 || m.Resolution > builtin.CoarsestSlot {
			ps = append(ps, d.problem(at+".resolution", fmt.Sprintf("is %s: want 5m for a forecast, at most %s", seconds.Short(m.Resolution), seconds.Short(builtin.CoarsestSlot))))
		}
	}
	switch {
	case len(s.Metrics) == 0: // a problem of every signal
	case windows == 0:
		ps = append(ps, d.problem(path+".parameters.metric", fmt.Sprintf("is %q: want the name of one of required_metrics", name)))
	case windows > 1 && name == "":
		ps = append(ps, d.problem(path+".parameters.metric", "is missing: name one of required_metrics"))
	}
	return ps
}

// Calendars returns the calendars of the pool, by app: of an advisor "APP~NAME". Validate has accepted the file.
func (p Pool) Calendars() map[string]calendar.Calendar {
	all := map[string]calendar.Calendar{}
	for _, s := range p.each() {
		if s.isCalendar() {
			all[s.App], _ = calendar.Decode(s.Parameters, time.LoadLocation)
		}
	}
	return all
}

// isCalendar reports whether the program is the shipped calendar, which reads no window.
func (s Program) isCalendar() bool { return s.Kind == kindBuiltin && s.Name == "calendar" }

// isForecast reports whether the program is the shipped forecast.
func (s Program) isForecast() bool { return s.Kind == kindBuiltin && s.Name == "forecast" }

// processProblems checks kind and shadow.
func (s Signal) processProblems(d document, path string) Problems {
	var ps Problems
	if kinds := []string{"", string(api.KindPlugin), string(api.KindExec)}; !slices.Contains(kinds, s.Kind) {
		ps = append(ps, d.problem(path+".kind", fmt.Sprintf("is %q: want plugin, exec or builtin", s.Kind)))
	}
	if s.Shadow != nil {
		ps = append(ps, s.Shadow.problems(s, d, path+".shadow")...)
	}
	return ps
}

func (x Shadow) problems(s Signal, d document, path string) Problems {
	var ps Problems
	ref := release.Ref{Namespace: "x", Name: "x", Version: x.Version}
	switch {
	case x.Version == "":
		ps = append(ps, d.problem(path+".version", "is missing: want the version to run beside the pinned one"))
	case x.Version == s.Pin():
		ps = append(ps, d.problem(path+".version", fmt.Sprintf("is %q, the pinned version: want another", x.Version)))
	case ref.Validate() != nil:
		ps = append(ps, d.problem(path+".version", ref.Validate().Error()))
	}
	if x.PromoteAfter < 0 {
		ps = append(ps, d.problem(path+".promote_after", fmt.Sprintf("is %d: want a number of ticks, or 0 for never", x.PromoteAfter)))
	}
	if t := x.Tolerance; t != nil && (*t < 0 || *t > 1) {
		ps = append(ps, d.problem(path+".tolerance", fmt.Sprintf("is %v: want 0 to 1, a fraction of the pinned version's answer", *t)))
	}
	return ps
}

// plan returns the plan of the signal's process.
func (s Signal) plan() bootstrap.SignalPlan {
	p := bootstrap.NewSignalPlan(s.App, s.Namespace, s.Name, s.Pin())
	p.Kind = api.ProcessKind(s.Kind)
	if s.Kind == kindBuiltin {
		p.Kind = api.KindPlugin
	}
	p.FixedApp = s.DistinctApp != nil && !*s.DistinctApp
	p.Limits, p.Environment = s.Limits.limits(), variables(s.Environment)
	if x := s.Shadow; x != nil {
		p.Shadow = &bootstrap.ShadowPlan{Version: x.Version, PromoteAfter: x.PromoteAfter, Tolerance: defaultTolerance}
		if x.Tolerance != nil {
			p.Shadow.Tolerance = *x.Tolerance
		}
	}
	return p
}

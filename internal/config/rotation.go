package config

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/pools/rotate"
)

// Rotation is which machines are replaced, and how machines are replaced, also by an order.
type Rotation struct {
	MaxAge    Age        `yaml:"max_age"` // older machines are replaced, such as 30d
	When      []string   `yaml:"when"`    // and those that match one of these conditions
	Rate      Rate       `yaml:"rate"`    // default: the limits of the pool alone
	Gate      HealthGate `yaml:"health_gate"`
	StopAfter int        `yaml:"stop_after"` // new machines that fail the gate until the rotation halts; default 1
}

// Rate is a number of machines within a time.
type Rate struct {
	Machines int           `yaml:"machines"`
	Within   time.Duration `yaml:"within"`
}

// HealthGate is what a new machine must show before an old one leaves for it.
type HealthGate struct {
	Wait   *time.Duration `yaml:"wait"`   // how long its node must be fit without a break; default 2m
	Within time.Duration  `yaml:"within"` // from its launch until its node joins; default two thirds of orphan_seconds
	Checks []string       `yaml:"checks"` // conditions that its node must report as good; none that it reports may have failed
}

// Age is a duration that may have days.
type Age time.Duration

// UnmarshalYAML reads a duration, in which a day may be "d".
func (a *Age) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	err := unmarshal(&text)
	var d time.Duration
	if err == nil {
		d, err = rotate.ParseAge(text)
	}
	if err != nil {
		return &wantError{"a duration such as 30d or 12h"}
	}
	*a = Age(d)
	return nil
}

const (
	defaultGateWait   = 2 * time.Minute
	defaultGateWithin = 30 * time.Minute // without a limit for orphans
	shortestAge       = time.Hour        // a younger machine would be replaced before it has served
	mostWhen          = 20
)

// autoscaler returns the rotation of a valid file. orphan is how long an instance may run before its node joins; 0: no limit.
func (r Rotation) autoscaler(orphan time.Duration) autoscaler.Rotation {
	out := autoscaler.Rotation{Policy: rotate.Policy{
		Rate: rotate.Rate{Machines: r.Rate.Machines, Within: r.Rate.Within}, StopAfter: r.StopAfter,
		Gate: rotate.Gate{Wait: orElse(r.Gate.Wait, defaultGateWait), Within: firstOf(r.Gate.Within, orphan*2/3, defaultGateWithin), Checks: r.Gate.Checks},
	}}
	texts := r.When
	if r.MaxAge > 0 {
		texts = append([]string{"age>" + ageText(time.Duration(r.MaxAge))}, texts...)
	}
	for _, text := range texts {
		when, _ := rotate.Parse(text) // Validate has parsed it
		out.Rules = append(out.Rules, rotate.Rule{Name: "rotation of " + text, Work: api.WorkRotate, When: when, Where: text})
	}
	return out
}

// ageText returns whole days as "30d".
func ageText(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// problems returns the mistakes of the rotation.
func (r Rotation) problems(d document) (ps Problems) {
	at := func(key, format string, args ...any) {
		ps = append(ps, d.problem("rotation."+key, fmt.Sprintf(format, args...)))
	}
	span := func(key string, value, least time.Duration) {
		if d.given("rotation."+key) && (value < least || value > longestSpan) {
			at(key, "is %s: want %s to %s", seconds.Short(value), seconds.Short(least), seconds.Short(longestSpan))
		}
	}
	span("max_age", time.Duration(r.MaxAge), shortestAge)
	span("rate.within", r.Rate.Within, time.Minute)
	span("health_gate.within", r.Gate.Within, time.Second)
	if r.Gate.Wait != nil {
		span("health_gate.wait", *r.Gate.Wait, 0)
	}
	if len(r.When) > mostWhen {
		at("when", "has %d conditions: want at most %d", len(r.When), mostWhen)
	}
	for i, text := range r.When {
		if _, err := rotate.Parse(text); err != nil {
			at(fmt.Sprintf("when[%d]", i), "%v", err)
		}
	}
	switch rate := r.Rate; {
	case rate.Machines < 0, rate.Machines == 0 && rate.Within != 0:
		at("rate.machines", "is %d: want at least 1", rate.Machines)
	case rate.Machines > 0 && rate.Within == 0:
		at("rate.within", "is missing: want a duration such as 1h")
	}
	if d.given("rotation.stop_after") && (r.StopAfter < 1 || r.StopAfter > mostStopAfter) {
		at("stop_after", "is %d: want 1 to %d", r.StopAfter, mostStopAfter)
	}
	if len(r.Gate.Checks) > mostChecks {
		at("health_gate.checks", "has %d conditions: want at most %d", len(r.Gate.Checks), mostChecks)
	}
	for i, check := range r.Gate.Checks {
		if check == "" || len(check) > mostCheck {
			at(fmt.Sprintf("health_gate.checks[%d]", i), "is %.80q: want the name of a condition of a node, such as ReadonlyFilesystem", check)
		}
	}
	return ps
}

// Bounds of a rotation.
const (
	mostStopAfter = 100
	mostChecks    = 16
	mostCheck     = 64 // bytes
)

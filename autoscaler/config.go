package autoscaler

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Config is the complete and valid configuration of one pool's loop.
type Config struct {
	Cluster string
	Pool    string
	Tick    time.Duration
	DryRun  bool // decide, plan and record, but change nothing
	Policy  api.DecisionPolicy
	Prune   api.PruneLimits
	Drain   drain.Config
	Drift   Drift // empty: Obey
	// OrphansAfter is how long an instance may run before its node joins; then it is removed. 0: no
	// limit.
	OrphansAfter time.Duration
	// FailedBoots is how many machines in a row may fail to join before the growth of their group stops; 0: any number.
	FailedBoots int
	// Machines is what one machine of a group offers, by group, if no better source is known. A node may report that much.
	Machines map[string]resource.Vector
	// Headroom are the places that the scheduler keeps free.
	Headroom []api.Headroom
	// Rotation is which machines are replaced by the pool file, and how machines are replaced, also by a roll.
	Rotation Rotation
	// Windows are the times at which a roll, a rotation and a scale-in may begin.
	Windows calendar.Windows
	// IgnorePlaces: the scheduler receives no question where copies fit, and an earlier answer does not count.
	IgnorePlaces bool
	// CallTimeout is the timeout of each call that changes something. A call begins only if the
	// lease outlasts it. 0: 5 s, or the tick if that is shorter.
	CallTimeout time.Duration
	// Parts are the named parts of the files, with their texts; nil: changes are not recorded. After a part left or
	// changed, the pool does not shrink for Grace.
	Parts   map[string]string
	Grace   time.Duration
	Default ask.Signal   // its App is sigproto.DefaultApp
	Apps    []ask.Signal // one for each app; an empty Name is the default signal's
}

// Validate returns all mistakes that make c unusable, joined, or nil.
func (c Config) Validate() error {
	errs := []error{decide.ValidatePolicy(c.Policy), c.Drain.Validate()}
	if c.Tick <= 0 {
		errs = append(errs, fmt.Errorf("tick is %v: want more than 0", c.Tick))
	}
	if c.Drift != "" && c.Drift != Obey && c.Drift != Correct {
		errs = append(errs, fmt.Errorf("drift is %q: want %s or %s", c.Drift, Obey, Correct))
	}
	if c.OrphansAfter < 0 || c.CallTimeout < 0 || c.Grace < 0 {
		errs = append(errs, fmt.Errorf("orphans after %v, call timeout %v, configuration grace %v: want at least 0", c.OrphansAfter, c.CallTimeout, c.Grace))
	}
	if c.Default.App != sigproto.DefaultApp || c.Default.Name == "" {
		errs = append(errs, fmt.Errorf("the default signal is %q of app %q: want a name, of app %s", c.Default.Name, c.Default.App, sigproto.DefaultApp))
	}
	seen := map[string]bool{}
	for _, s := range c.Signals() {
		if s.App == "" || seen[s.App] {
			errs = append(errs, fmt.Errorf("app %q: want each to have a name of its own", s.App))
		}
		if s.Period <= 0 {
			errs = append(errs, fmt.Errorf("app %s: period is %v: want more than 0", s.App, s.Period))
		}
		if s.TimeLimit < 0 || s.TimeLimit > s.Period {
			errs = append(errs, fmt.Errorf("app %s: time limit is %v: want 0s to the period, %v", s.App, s.TimeLimit, s.Period))
		}
		seen[s.App] = true
	}
	return errors.Join(errs...)
}

// Signals returns all signals: the default one first, then one for each app, each followed by its advisors.
func (c Config) Signals() []ask.Signal {
	all := []ask.Signal{c.Default}
	for _, s := range c.Apps {
		all = append(append(all, s), s.Raise...)
	}
	return all
}

// panel returns the configuration of the signals.
func (c Config) panel() ask.Config {
	return ask.Config{Cluster: c.Cluster, Pool: c.Pool, Tick: c.Tick, Signals: c.Signals()}
}

// writer returns the configuration of the writer.
func (c Config) writer() apply.Config {
	w := apply.Config{
		Pool: c.Pool, Tick: c.Tick, DryRun: c.DryRun, Drain: c.Drain, Obey: c.Drift != Correct,
		StepTimeout: c.stepTimeout(), CallTimeout: c.callTimeout(), Parts: c.Parts, Grace: c.Grace, Machines: c.Machines,
	}
	for _, s := range c.Signals()[1:] {
		w.Apps = append(w.Apps, s.App)
	}
	return w
}

// stepTimeout returns the timeout of each other step that waits for another process.
func (c Config) stepTimeout() time.Duration {
	return min(max(c.Tick, 2*time.Second), 30*time.Second)
}

// callTimeout returns the timeout of each call that changes something.
func (c Config) callTimeout() time.Duration {
	if c.CallTimeout > 0 {
		return c.CallTimeout
	}
	return min(c.stepTimeout(), 5*time.Second)
}

// Drift is the reaction to a target that another party set.
type Drift string

const (
	Obey    Drift = "obey"    // the wanted weight changes; an empty Drift means obey
	Correct Drift = "correct" // the wanted weight stays: the difference is a pending increase or a surplus
)

package autoscaler

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Config is one pool's loop, complete and valid.
type Config struct {
	Cluster string
	Pool    string
	Tick    time.Duration
	DryRun  bool // decide, plan and record, but change nothing
	Policy  decide.Policy
	Prune   plan.Limits
	Drain   drain.Config
	Drift   Drift // empty: Obey
	// OrphansAfter is how long an instance may be up without its node having joined
	// until it is let go; 0 is for ever.
	OrphansAfter time.Duration
	// CallTimeout bounds each call that changes something: none is begun unless the
	// lease outlasts it. 0: 5 s, or the tick if that is shorter.
	CallTimeout time.Duration
	Default     Signal   // its App is sigproto.DefaultApp
	Apps        []Signal // one for each app; an empty Name is the default signal's
}

// Signal is whom the loop asks for one app, and with which windows.
type Signal struct {
	App        string
	Namespace  string
	Name       string // empty: the app has no signal of its own
	Version    string // pinned release
	Period     time.Duration
	HoldFor    time.Duration // how long its last good answer may stand in
	Windows    []Window      // for processes whose Endpoint has no Question
	Parameters map[string]any
}

// question returns what the process at e is asked with.
func (s Signal) question(e Endpoint) Question {
	if e.Question != nil {
		return *e.Question
	}
	return Question{s.Windows, s.Parameters}
}

// asked returns the signal with that question in place of its own.
func (s Signal) asked(q Question) Signal {
	s.Windows, s.Parameters = q.Windows, q.Parameters
	return s
}

// equal reports whether both ask the same.
func (q Question) equal(other Question) bool {
	return slices.Equal(q.Windows, other.Windows) && (len(q.Parameters) == 0 && len(other.Parameters) == 0 ||
		reflect.DeepEqual(q.Parameters, other.Parameters))
}

// Window is a metric over its range.
type Window struct {
	// Name may carry dimensions, as "boost|zone=a": only series with these are
	// meant then, and the signal sees them in the names.
	Name string
	Type metrics.Type
	App  string // instance counts of this app only
	// Regex: Name is a regular expression (RE2), looked for anywhere in the keys
	// "APP,NAME|DIMENSIONS" of the app's own metrics. If it finds none, the window
	// is stale, as an empty one is. Of type metrics.App only.
	Regex  bool
	Range  time.Duration
	MaxAge time.Duration // of the newest point; older is stale
}

// Validate returns every problem of c that would keep a loop from making sense of
// it, joined; nil if there is none.
func (c Config) Validate() error {
	errs := []error{c.Policy.Validate(), c.Drain.Validate()}
	if c.Tick <= 0 {
		errs = append(errs, fmt.Errorf("tick is %v: want more than 0", c.Tick))
	}
	if c.Drift != "" && c.Drift != Obey && c.Drift != Correct {
		errs = append(errs, fmt.Errorf("drift is %q: want %s or %s", c.Drift, Obey, Correct))
	}
	if c.OrphansAfter < 0 || c.CallTimeout < 0 {
		errs = append(errs, fmt.Errorf("orphans after %v, call timeout %v: want at least 0", c.OrphansAfter, c.CallTimeout))
	}
	if c.Default.App != sigproto.DefaultApp || c.Default.Name == "" {
		errs = append(errs, fmt.Errorf("the default signal is %q of app %q: want a name, of app %s", c.Default.Name, c.Default.App, sigproto.DefaultApp))
	}
	seen := map[string]bool{}
	for _, s := range c.signals() {
		if s.App == "" || seen[s.App] {
			errs = append(errs, fmt.Errorf("app %q: want each to have a name of its own", s.App))
		}
		if s.Period <= 0 {
			errs = append(errs, fmt.Errorf("app %s: period is %v: want more than 0", s.App, s.Period))
		}
		seen[s.App] = true
	}
	return errors.Join(errs...)
}

// signals returns all signals, the default one first.
func (c Config) signals() []Signal { return append([]Signal{c.Default}, c.Apps...) }

// panel returns the configuration of the signals.
func (c Config) panel() PanelConfig {
	return PanelConfig{Cluster: c.Cluster, Pool: c.Pool, Tick: c.Tick, Signals: c.signals()}
}

// stepTimeout bounds each other step that waits for somebody.
func (c Config) stepTimeout() time.Duration {
	return min(max(c.Tick, 2*time.Second), 30*time.Second)
}

// callTimeout bounds each call that changes something.
func (c Config) callTimeout() time.Duration {
	if c.CallTimeout > 0 {
		return c.CallTimeout
	}
	return min(c.stepTimeout(), 5*time.Second)
}

// Drift says what becomes of a target that another than this autoscaler has set.
type Drift string

const (
	Obey    Drift = "obey"    // it changes what is wanted; so does the empty Drift
	Correct Drift = "correct" // what is wanted stays: the difference is owed or surplus
)

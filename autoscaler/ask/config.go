package ask

import (
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Config is the signals of one pool, with the limits of their evaluation.
type Config struct {
	Cluster string
	Pool    string
	Tick    time.Duration // positive
	Signals []Signal      // the default signal first, then one for each app, each followed by its advisors
}

// Timeout returns how long a tick waits for its signals: half a tick, within limits, so that a
// silent signal does not delay the next tick. It is also the shortest time limit of a signal.
func (c Config) Timeout() time.Duration {
	return min(max(c.Tick/2, 500*time.Millisecond), 10*time.Second)
}

// limit returns the time limit of one response of s.
func (c Config) limit(s Signal) time.Duration { return max(s.TimeLimit, c.Timeout()) }

// outlasts reports whether an evaluation of s may outlast the tick that began it.
func (c Config) outlasts(s Signal) bool { return s.TimeLimit > c.Timeout() }

// Signal is the signal of one app, or an advisor.
type Signal struct {
	App        string // of an advisor: sigproto.AdvisorApp
	Namespace  string
	Name       string // empty: the app has no signal of its own
	Version    string // pinned release
	Period     time.Duration
	TimeLimit  time.Duration    // at most the Period; if shorter than the Timeout, the Timeout counts
	HoldFor    time.Duration    // how long its last good opinion counts after it
	MaxRequest resource.Request // as in api.AppInput
	Windows    []Window         // for processes whose Endpoint has no Request
	Parameters map[string]any
	Setpoint   float64       // of the pool; 0: unknown
	Launch     time.Duration // as in sigproto.Hello; Panel.SetLaunch sets that of the advisors
	Raise      []Signal      // the app's advisors; the Panel does not read it
}

// advises reports whether the signal is an advisor.
func (s Signal) advises() bool { return sigproto.AppOf(s.App) != s.App }

// configured reports whether the app has a signal of its own.
func (s Signal) configured() bool { return s.Name != "" }

// Spec returns the content of its requests by the configuration.
func (s Signal) Spec() RequestSpec {
	return RequestSpec{Windows: s.Windows, Parameters: s.Parameters, Setpoint: s.Setpoint}
}

// spec returns the content of a request to the process at e.
func (s Signal) spec(e Endpoint) RequestSpec {
	spec := s.Spec()
	if e.Request != nil {
		spec = *e.Request
	}
	spec.Launch = s.Launch
	return spec
}

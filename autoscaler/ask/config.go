package ask

import (
	"reflect"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// Config is the signals of one pool, and what bounds their evaluation.
type Config struct {
	Cluster string
	Pool    string
	Tick    time.Duration // above 0
	Signals []Signal      // the default signal first, then one for each app
}

// Timeout returns how long the evaluation of one signal may take: half a tick, within
// bounds, so that a silent signal costs the tick less than the tick.
func (c Config) Timeout() time.Duration {
	return min(max(c.Tick/2, 500*time.Millisecond), 10*time.Second)
}

// Signal is whom the loop asks for one app, and with which windows.
type Signal struct {
	App        string
	Namespace  string
	Name       string // empty: the app has no signal of its own
	Version    string // pinned release
	Period     time.Duration
	HoldFor    time.Duration // how long its last good answer may stand in
	Windows    []Window      // for processes whose Endpoint has no RequestSpec
	Parameters map[string]any
}

// question returns what the process at e is asked with.
func (s Signal) question(e Endpoint) RequestSpec {
	if e.Request != nil {
		return *e.Request
	}
	return RequestSpec{s.Windows, s.Parameters}
}

// asked returns the signal with that question in place of its own.
func (s Signal) asked(q RequestSpec) Signal {
	s.Windows, s.Parameters = q.Windows, q.Parameters
	return s
}

// equal reports whether both ask the same.
func (q RequestSpec) equal(other RequestSpec) bool {
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

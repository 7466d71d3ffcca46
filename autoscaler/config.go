package autoscaler

import (
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// Config is one pool's loop, complete and valid.
type Config struct {
	Cluster string
	Pool    string
	Tick    time.Duration
	DryRun  bool // decide and plan, but ask nothing of the provider
	Policy  decide.Policy
	Prune   plan.Limits
	Default Signal   // its App is sigproto.DefaultApp
	Apps    []Signal // one for each app; an empty Name is the default signal's
}

// Signal is whom the loop asks for one app, and with which windows.
type Signal struct {
	App        string
	Namespace  string
	Name       string // empty: the app has no signal of its own
	Version    string // pinned release
	Period     time.Duration
	HoldFor    time.Duration // how long its last good answer may stand in
	Windows    []Window
	Parameters map[string]any
}

// Window is a metric over its range.
type Window struct {
	Name   string
	Type   metrics.Type
	App    string // instance counts of this app only
	Range  time.Duration
	MaxAge time.Duration // of the newest point; older is stale
}

// askTimeout is how long one signal may take: half a tick, within bounds, so
// that a silent signal costs the tick less than the tick.
func (c Config) askTimeout() time.Duration {
	return min(max(c.Tick/2, 500*time.Millisecond), 10*time.Second)
}

// stepTimeout bounds each other step that waits for somebody.
func (c Config) stepTimeout() time.Duration {
	return min(max(c.Tick, 2*time.Second), 30*time.Second)
}

package ask

import (
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
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

// Signal is the signal of one app.
type Signal struct {
	App        string
	Namespace  string
	Name       string // empty: the app has no signal of its own
	Version    string // pinned release
	Period     time.Duration
	HoldFor    time.Duration    // how long its last good opinion may stand in
	MaxRequest resource.Request // as of decide.App
	Windows    []Window         // for processes whose Endpoint has no Request
	Parameters map[string]any
}

// configured reports whether the app has a signal of its own.
func (s Signal) configured() bool { return s.Name != "" }

// spec returns what a request to the process at e contains.
func (s Signal) spec(e Endpoint) RequestSpec {
	if e.Request != nil {
		return *e.Request
	}
	return RequestSpec{s.Windows, s.Parameters}
}

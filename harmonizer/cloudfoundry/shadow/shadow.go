package shadow

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// Config configures a Matcher.
type Config struct {
	Window time.Duration // longest time between an act and its match; max_shadowing_delay, default 10 s
	Limit  int           // stored acts of each side; default 20 000
	Every  time.Duration // how often mismatches are logged; check_shadowing, default 30 s
}

// WithDefaults returns a copy in which each zero field has its default.
func (c Config) WithDefaults() Config {
	c.Window = cmp.Or(c.Window, 10*time.Second)
	c.Limit = cmp.Or(c.Limit, 20_000)
	c.Every = cmp.Or(c.Every, 30*time.Second)
	return c
}

// Validate joins all problems of the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Window <= 0 {
		errs = append(errs, fmt.Errorf("max_shadowing_delay is %v; it must be above 0", c.Window))
	}
	if c.Limit < 1 {
		errs = append(errs, fmt.Errorf("limit is %d; it must be at least 1", c.Limit))
	}
	if c.Every <= 0 {
		errs = append(errs, fmt.Errorf("check_shadowing is %v; it must be above 0", c.Every))
	}
	return errors.Join(errs...)
}

// Matcher matches the nudges of two harmonizers; see the package comment.
type Matcher struct {
	cfg   Config
	queue []*done // of both sides, in order of time; none is older than the window
	acts  map[api.ShadowAct]*[2]track
	held  [2]int               // number of entries in queue, by side
	alone []api.ShadowMismatch // not returned by Due yet; at most 2*Limit
	stats api.ShadowStats
}

// side is an index: 0 for Own, 1 for Other.
type side int

func (s side) name() api.ShadowSide { return [...]api.ShadowSide{api.ShadowOwn, api.ShadowOther}[s] }

// done is one act of one side.
type done struct {
	act     api.ShadowAct
	by      side
	at      time.Time
	matched bool
}

// track has one side's occurrences of one act.
type track struct {
	recent int     // number of entries in the queue
	open   []*done // those without a match
}

// New returns a matcher without acts. The configuration must be valid.
func New(cfg Config) *Matcher {
	return &Matcher{cfg: cfg, acts: map[api.ShadowAct]*[2]track{}}
}

// Own adds a nudge that we would have sent.
func (m *Matcher) Own(now time.Time, n apps.Nudge) { m.matchNudge(now, 0, n) }

// Received adds a nudge of the other harmonizer.
func (m *Matcher) Received(now time.Time, n apps.Nudge) { m.matchNudge(now, 1, n) }

// Stats returns the counts so far.
func (m *Matcher) Stats() api.ShadowStats { return m.stats }

// Due returns the acts without a match within the window, in order of time, each once.
func (m *Matcher) Due(now time.Time) []api.ShadowMismatch {
	m.expire(now)
	alone := m.alone
	m.alone = nil
	return alone
}

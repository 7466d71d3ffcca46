package shadow

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// Config of a Matcher.
type Config struct {
	Window time.Duration // between an act and its match, inclusive; max_shadowing_delay, 10 s
	Limit  int           // acts of each side that are remembered at once; 20 000
}

// WithDefaults returns a copy in which every zero is the default.
func (c Config) WithDefaults() Config {
	c.Window = cmp.Or(c.Window, 10*time.Second)
	c.Limit = cmp.Or(c.Limit, 20_000)
	return c
}

// Validate joins everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Window <= 0 {
		errs = append(errs, fmt.Errorf("max_shadowing_delay is %v, it must be above 0", c.Window))
	}
	if c.Limit < 1 {
		errs = append(errs, fmt.Errorf("limit is %d, it must be at least 1", c.Limit))
	}
	return errors.Join(errs...)
}

// Side is who did something. The strings are stable.
type Side string

const (
	Own   Side = "own"   // we would have
	Other Side = "other" // the other harmonizer did
)

// Op is what was asked for. The strings are stable.
type Op string

const (
	Start Op = "start"
	Stop  Op = "stop"
)

// Act is one thing asked for: a start of an index, or a stop of an instance.
type Act struct {
	Op       Op     `json:"op"`
	App      string `json:"app"`
	Version  string `json:"version,omitempty"`  // of a start
	Index    int    `json:"index"`              // of a start
	Instance string `json:"instance,omitempty"` // of a stop
}

// String returns the act as words: "start web/3 version v1", "stop web instance i7".
func (a Act) String() string {
	if a.Op == Start {
		return fmt.Sprintf("start %s/%d version %s", a.App, a.Index, a.Version)
	}
	return fmt.Sprintf("stop %s instance %s", a.App, a.Instance)
}

// Mismatch is an act of one side that the other did not do within the window.
type Mismatch struct {
	By Side `json:"by"`
	Act
	At time.Time `json:"at"`
}

// String returns the mismatch as words, without its time.
func (m Mismatch) String() string { return string(m.By) + " alone: " + m.Act.String() }

// Stats is what a Matcher saw since it was made, in acts.
type Stats struct {
	Matched uint64 `json:"matched"` // of both sides together
	Own     uint64 `json:"own"`     // ours alone
	Other   uint64 `json:"other"`   // the other's alone
	Dropped uint64 `json:"dropped"` // not looked at, for want of room
}

// Matcher is described in the package comment.
type Matcher struct {
	cfg   Config
	queue []*done // of both sides, in order of time, none older than the window
	acts  map[Act]*[2]track
	held  [2]int     // how many of the queue are of each side
	alone []Mismatch // not told yet, at most twice the limit
	stats Stats
}

// side is an index: 0 for Own, 1 for Other.
type side int

func (s side) name() Side { return [...]Side{Own, Other}[s] }

// done is one act of one side.
type done struct {
	act     Act
	by      side
	at      time.Time
	matched bool
}

// track is what one side did of one act.
type track struct {
	recent int     // how often the queue holds it
	open   []*done // those of them without a match
}

// New returns a matcher that saw nothing. The configuration must be valid.
func New(cfg Config) *Matcher {
	return &Matcher{cfg: cfg, acts: map[Act]*[2]track{}}
}

// Own takes a nudge that we would have sent.
func (m *Matcher) Own(now time.Time, n apps.Nudge) { m.take(now, 0, n) }

// Heard takes a nudge of the other harmonizer.
func (m *Matcher) Heard(now time.Time, n apps.Nudge) { m.take(now, 1, n) }

// Stats returns what was seen so far.
func (m *Matcher) Stats() Stats { return m.stats }

// Due returns what found no match within the window, in order of time; each
// once.
func (m *Matcher) Due(now time.Time) []Mismatch {
	m.expire(now)
	alone := m.alone
	m.alone = nil
	return alone
}

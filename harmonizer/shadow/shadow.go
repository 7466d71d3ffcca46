package shadow

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// Config configures a Matcher.
type Config struct {
	Window time.Duration // longest time between an act and its match; max_shadowing_delay, default 10 s
	Limit  int           // stored acts of each side; default 20 000
}

// WithDefaults returns a copy in which each zero field has its default.
func (c Config) WithDefaults() Config {
	c.Window = cmp.Or(c.Window, 10*time.Second)
	c.Limit = cmp.Or(c.Limit, 20_000)
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
	return errors.Join(errs...)
}

// Side is one of the two harmonizers. The strings are stable.
type Side string

const (
	Own   Side = "own"   // this harmonizer
	Other Side = "other" // the other harmonizer
)

// Op is the operation of an act. The strings are stable.
type Op string

const (
	Start Op = "start"
	Stop  Op = "stop"
)

// Act is one requested operation: the start of an index, or the stop of an instance.
type Act struct {
	Op       Op     `json:"op"`
	App      string `json:"app"`
	Version  string `json:"version,omitempty"`  // of a start
	Index    int    `json:"index"`              // of a start
	Instance string `json:"instance,omitempty"` // of a stop
}

// String returns the act as text: "start web/3 version v1", "stop web instance i7".
func (a Act) String() string {
	if a.Op == Start {
		return fmt.Sprintf("start %s/%d version %s", a.App, a.Index, a.Version)
	}
	return fmt.Sprintf("stop %s instance %s", a.App, a.Instance)
}

// Mismatch is an act of one side without a match of the other within the window.
type Mismatch struct {
	By Side `json:"by"`
	Act
	At time.Time `json:"at"`
}

// String returns the mismatch as text, without its time.
func (m Mismatch) String() string { return string(m.By) + " alone: " + m.Act.String() }

// Stats counts the acts of a Matcher since New.
type Stats struct {
	Matched uint64 `json:"matched"` // of both sides
	Own     uint64 `json:"own"`     // only ours
	Other   uint64 `json:"other"`   // only the other's
	Dropped uint64 `json:"dropped"` // not compared, because Limit was reached
}

// Matcher matches the nudges of two harmonizers; see the package comment.
type Matcher struct {
	cfg   Config
	queue []*done // of both sides, in order of time; none is older than the window
	acts  map[Act]*[2]track
	held  [2]int     // number of entries in queue, by side
	alone []Mismatch // not returned by Due yet; at most 2*Limit
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

// track has one side's occurrences of one act.
type track struct {
	recent int     // number of entries in the queue
	open   []*done // those without a match
}

// New returns a matcher without acts. The configuration must be valid.
func New(cfg Config) *Matcher {
	return &Matcher{cfg: cfg, acts: map[Act]*[2]track{}}
}

// Own adds a nudge that we would have sent.
func (m *Matcher) Own(now time.Time, n apps.Nudge) { m.take(now, 0, n) }

// Received adds a nudge of the other harmonizer.
func (m *Matcher) Received(now time.Time, n apps.Nudge) { m.take(now, 1, n) }

// Stats returns the counts so far.
func (m *Matcher) Stats() Stats { return m.stats }

// Due returns the acts without a match within the window, in order of time, each once.
func (m *Matcher) Due(now time.Time) []Mismatch {
	m.expire(now)
	alone := m.alone
	m.alone = nil
	return alone
}

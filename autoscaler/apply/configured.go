package apply

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// configured is the configuration of the last tick by its named parts, and which parts left or changed a short time ago.
type configured struct {
	Parts map[string]string    `json:"parts"` // nil: no tick had a configuration
	Grace time.Duration        `json:"grace_ns,omitempty"`
	Left  map[string]*leftPart `json:"left,omitempty"`
	// Base is the digest of the parts before the first change in Left.
	Base string `json:"base,omitempty"`
	// Unrecorded is what changed since the last record of a tick.
	Unrecorded *api.ConfigurationChange `json:"unrecorded,omitempty"`
}

// leftPart is a part that left or changed. The pool does not shrink before Until.
type leftPart struct {
	Was     string    `json:"was"` // before the first of its changes
	Changed bool      `json:"changed,omitempty"`
	At      time.Time `json:"at"` // of the last one
	Until   time.Time `json:"until"`
}

// follow compares the parts with those of the last tick, and returns the changes that are not recorded; nil: nothing changed. A part
// that is again as it was does not hold the pool, and no part does if all of them are. The longer of two graces counts, because a
// change may shorten it.
func (c *configured) follow(now time.Time, parts map[string]string, grace time.Duration) *api.ConfigurationChange {
	if parts == nil {
		return nil
	}
	before, longer := c.Parts, max(c.Grace, grace)
	c.Parts, c.Grace = parts, grace
	c.expire(now)
	if before == nil || maps.Equal(before, parts) {
		return nil
	}
	if len(c.Left) == 0 {
		c.Base = digest(before)
	}
	change := api.ConfigurationChangeOf(before, parts)
	for _, name := range change.Left {
		c.leave(now, name, before[name], false, longer)
	}
	for _, one := range change.Changed {
		c.leave(now, one.What, one.From, true, longer)
	}
	again := digest(parts) == c.Base
	maps.DeleteFunc(c.Left, func(name string, l *leftPart) bool { is, there := parts[name]; return again || there && is == l.Was })
	if last := c.Unrecorded; last != nil {
		change = api.ConfigurationChange{
			Came: slices.Concat(last.Came, change.Came), Left: slices.Concat(last.Left, change.Left),
			Changed: slices.Concat(last.Changed, change.Changed), Omitted: last.Omitted + change.Omitted,
		}
	}
	c.Unrecorded = bounded(change)
	return c.Unrecorded
}

// digest returns a text that only equal parts have.
func digest(parts map[string]string) string {
	text, err := json.Marshal(parts) // sorted by name
	if err != nil {
		return err.Error() // texts have an encoding
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// leave holds the pool because of a part.
func (c *configured) leave(now time.Time, name, was string, changed bool, grace time.Duration) {
	if grace <= 0 {
		return
	}
	if c.Left == nil {
		c.Left = map[string]*leftPart{}
	}
	l := c.Left[name]
	if l == nil {
		l = &leftPart{Was: was}
		c.Left[name] = l
	}
	l.At, l.Changed = now, changed
	if until := now.Add(grace); until.After(l.Until) {
		l.Until = until
	}
}

// expire removes the parts whose time has passed.
func (c *configured) expire(now time.Time) {
	for _, l := range c.Left {
		if l.At.After(now) { // the clock went back
			l.At, l.Until = now, now.Add(l.Until.Sub(l.At))
		}
	}
	maps.DeleteFunc(c.Left, func(_ string, l *leftPart) bool { return !now.Before(l.Until) })
}

// accept ends the hold for all parts up to a time.
func (c *configured) accept(through time.Time) {
	maps.DeleteFunc(c.Left, func(_ string, l *leftPart) bool { return !l.At.After(through) })
}

// hold returns why the pool must not shrink; nil: it may.
func (c *configured) hold() *api.ConfigurationHold {
	if len(c.Left) == 0 {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(c.Left), func(a, b string) int {
		return cmp.Or(cmp.Compare(urgency(a, c.Left[a]), urgency(b, c.Left[b])), cmp.Compare(a, b))
	})
	var out api.ConfigurationHold
	for _, l := range c.Left {
		if l.At.After(out.At) {
			out.At = l.At
		}
		if l.Until.After(out.Until) {
			out.Until = l.Until
		}
	}
	what := names[0]
	if more := len(names) - 1; more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	verb := "changed in the configuration"
	if out.Left = !c.Left[names[0]].Changed; out.Left {
		verb = "left the configuration"
	}
	out.Why = fmt.Sprintf("%s %s at %s: the pool does not shrink until %s (configuration_grace); \"weir pool accept\" ends this",
		what, verb, out.At.UTC().Format(time.RFC3339), out.Until.UTC().Format(time.RFC3339))
	return &out
}

// urgency orders the parts of a hold: what left is before what changed, and an app before its signal and metrics.
func urgency(name string, l *leftPart) int {
	kinds := []string{"app ", "group ", "signal of ", "metric "}
	n := slices.IndexFunc(kinds, func(kind string) bool { return strings.HasPrefix(name, kind) })
	if n < 0 {
		n = len(kinds)
	}
	if l.Changed {
		n += len(kinds) + 1
	}
	return n
}

// holdsRepairs reports whether the policy of node health left or changed: its repairs may be a mistake too.
func (c *configured) holdsRepairs() bool {
	for name := range c.Left {
		if name == "health" || strings.HasPrefix(name, "health.") {
			return true
		}
	}
	return false
}

// maxListed bounds each list of a change.
const maxListed = 40

func bounded(c api.ConfigurationChange) *api.ConfigurationChange {
	c.Came, c.Left, c.Changed = first(&c, c.Came), first(&c, c.Left), first(&c, c.Changed)
	return &c
}

func first[T any](c *api.ConfigurationChange, list []T) []T {
	if more := len(list) - maxListed; more > 0 {
		c.Omitted += more
		return list[:maxListed:maxListed]
	}
	return list
}

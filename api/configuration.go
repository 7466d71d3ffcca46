package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ConfigurationChange is what differs between the configuration of a tick and that of the tick before it. Each list has the
// first entries by name.
type ConfigurationChange struct {
	Came    []string `json:"came,omitempty"`
	Left    []string `json:"left,omitempty"`
	Changed []Change `json:"changed,omitempty"`
	Omitted int      `json:"omitted,omitempty"` // entries that the lists do not have
}

// ConfigurationChangeOf returns what differs between two configurations: texts of their parts by name.
func ConfigurationChangeOf(before, after map[string]string) (c ConfigurationChange) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		switch is, there := after[name]; {
		case !there:
			c.Left = append(c.Left, name)
		case is != before[name]:
			c.Changed = append(c.Changed, Change{What: name, From: before[name], To: is})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, there := before[name]; !there {
			c.Came = append(c.Came, name)
		}
	}
	return c
}

// Names returns the names of all parts that the lists have.
func (c ConfigurationChange) Names() []string {
	names := slices.Concat(c.Came, c.Left)
	for _, one := range c.Changed {
		names = append(names, one.What)
	}
	return names
}

// String returns the change for people: "left: app web; changed: scaling_limits.max_capacity 10 -> 1".
func (c ConfigurationChange) String() string {
	var changed, parts []string
	for _, one := range c.Changed {
		changed = append(changed, one.String())
	}
	for _, list := range []struct {
		name  string
		names []string
	}{{"left", c.Left}, {"changed", changed}, {"came", c.Came}} {
		if len(list.names) > 0 {
			parts = append(parts, list.name+": "+strings.Join(list.names, ", "))
		}
	}
	if c.Omitted > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", c.Omitted))
	}
	return strings.Join(parts, "; ")
}

// ConfigurationHold is why a pool does not shrink after parts of its configuration left or changed.
type ConfigurationHold struct {
	At    time.Time `json:"at"`             // of the tick that found the last of them
	Until time.Time `json:"until"`          // when the hold ends
	Why   string    `json:"why"`            // one sentence
	Left  bool      `json:"left,omitempty"` // a part left; false: all of them changed
}

// Acceptance ends the hold for all parts that left or changed at Through or before.
type Acceptance struct {
	Note
	Through time.Time `json:"through"`
}

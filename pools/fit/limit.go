package fit

import (
	"fmt"
	"slices"
	"strings"
)

// Held is what a node has a limited number of: copies with a port, or copies of an application. One of the fields is set.
type Held struct {
	Port int
	App  string
}

// Limit is how many of something a node has at most, with the copy that has the limit.
type Limit struct {
	Held
	Most int // above 0
}

// String returns "port 8080", or "at most 2 copies of web on a node".
func (l Limit) String() string {
	if l.App == "" {
		return fmt.Sprintf("port %d", l.Port)
	}
	return fmt.Sprintf("at most %d copies of %s on a node", l.Most, l.App)
}

// Allow reports whether a node that has so many of each takes one more copy with these limits.
func Allow(limits []Limit, has map[Held]int) bool {
	return !slices.ContainsFunc(limits, func(l Limit) bool { return has[l.Held] >= l.Most })
}

// ClassKey returns a text that is equal for equal limits in the same order. It is empty without any.
func ClassKey(limits []Limit) string {
	var b strings.Builder
	for _, l := range limits {
		fmt.Fprintf(&b, "%d %q %d,", l.Port, l.App, l.Most)
	}
	return b.String()
}

// spare returns how many of n copies with these limits one machine takes that has so many of each.
func spare(limits []Limit, has map[Held]int, n int) int {
	for _, l := range limits {
		n = min(n, l.Most-has[l.Held])
	}
	return max(n, 0)
}

// needs returns the resources and the limits of a copy as text: "cpus=0.6 mem=64, port 8080".
func needs(c *Copy) string {
	var text strings.Builder
	text.WriteString(amounts(c.Footprint))
	for _, l := range c.Limits {
		text.WriteString(", " + l.String())
	}
	return text.String()
}

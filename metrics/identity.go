package metrics

import (
	"maps"
	"slices"
	"strings"
)

// Identity is what tells one series of a type from another, made to be compared
// again and again. Its order is that of Key; as two sets of dimensions with
// commas in them can have the same Key, these are in order of the dimensions.
type Identity struct {
	key   string
	pairs []string // names and values of the dimensions, in order of name
}

// Identify returns the identity of the series of that name and those dimensions.
func Identify(name string, d Dimensions) Identity {
	id := Identity{key: Key(name, d)}
	for _, k := range slices.Sorted(maps.Keys(d)) {
		id.pairs = append(id.pairs, k, d[k])
	}
	return id
}

// Key returns the series' Key.
func (a Identity) Key() string { return a.key }

// Compare returns -1, 0 or +1 as a comes before b, is b, or comes after it.
func (a Identity) Compare(b Identity) int {
	if c := strings.Compare(a.key, b.key); c != 0 {
		return c
	}
	return slices.Compare(a.pairs, b.pairs)
}

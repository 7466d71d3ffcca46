package metrics

import (
	"maps"
	"slices"
	"strings"
)

// Identity identifies a series of a type, for many comparisons. Its order is that of Key. Series whose dimensions
// contain commas can have the same Key; they are ordered by their dimensions.
type Identity struct {
	key   string
	pairs []string // names and values of the dimensions, in order of name
}

// Identify returns the identity of a series.
func Identify(name string, d Dimensions) Identity {
	id := Identity{key: Key(name, d)}
	for _, k := range slices.Sorted(maps.Keys(d)) {
		id.pairs = append(id.pairs, k, d[k])
	}
	return id
}

// Key returns the series' Key.
func (a Identity) Key() string { return a.key }

// Compare returns -1, 0 or +1 if a is before b, equal to b, or after b.
func (a Identity) Compare(b Identity) int {
	if c := strings.Compare(a.key, b.key); c != 0 {
		return c
	}
	return slices.Compare(a.pairs, b.pairs)
}

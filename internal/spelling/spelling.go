// Package spelling suggests the correct name for a misspelled one. It has no state.
package spelling

import (
	"slices"
	"strings"
)

// longest bounds a name that Nearest compares, in bytes.
const longest = 60

// Unknown returns an error text for an unknown key. It suggests the nearest valid key and lists all valid keys.
func Unknown(key string, allowed []string) string {
	what := "no such key"
	if name := Nearest(key, allowed); name != "" {
		what += "; did you mean " + name + "?"
	}
	return what + " (allowed: " + strings.Join(slices.Sorted(slices.Values(allowed)), ", ") + ")"
}

// Nearest returns the name that key probably misspells, the first of equally near ones; empty if no name is near.
func Nearest(key string, names []string) (best string) {
	if len(key) > longest {
		return ""
	}
	most := 1 + len(key)/3
	for _, name := range names {
		if d := Distance(key, name); d <= most {
			best, most = name, d-1
		}
	}
	return best
}

// Distance returns the Levenshtein distance: the number of inserted, deleted or changed bytes between two names.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

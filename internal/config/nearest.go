package config

import (
	"slices"
	"strings"
)

// unknownKey says what is allowed in the place of key, the nearest name first.
func unknownKey(key string, allowed []string) string {
	what := "no such key"
	if name := nearest(key, allowed); name != "" {
		what += "; did you mean " + name + "?"
	}
	sorted := slices.Sorted(slices.Values(allowed))
	return what + " (allowed: " + strings.Join(sorted, ", ") + ")"
}

// nearest returns the name of which key may be a misspelling; empty if of none.
func nearest(key string, names []string) (best string) {
	if len(key) > maxShown {
		return ""
	}
	allowed := 1 + len(key)/3
	for _, name := range names {
		if d := editDistance(key, name); d <= allowed {
			best, allowed = name, d-1
		}
	}
	return best
}

// editDistance is Levenshtein's: insertions, deletions and substitutions.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

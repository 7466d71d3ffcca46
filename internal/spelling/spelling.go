// Package spelling tells how alike two names are written, so that who mistyped one
// can be told which was meant. It holds no state.
package spelling

import (
	"slices"
	"strings"
)

// longest bounds, in bytes, a name that is looked for among others.
const longest = 60

// Unknown says of a key that nobody has which one was meant, if that shows, and which
// there are.
func Unknown(key string, allowed []string) string {
	what := "no such key"
	if name := Nearest(key, allowed); name != "" {
		what += "; did you mean " + name + "?"
	}
	return what + " (allowed: " + strings.Join(slices.Sorted(slices.Values(allowed)), ", ") + ")"
}

// Nearest returns the name of which key may be a misspelling, the first of equally
// near ones; empty if of none.
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

// Distance is Levenshtein's: how many bytes must be put in, taken out or changed
// to make one name of the other.
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

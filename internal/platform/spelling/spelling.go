// Package spelling suggests the correct name for a misspelled one. It has no state.
//
// [Unknown] makes the error of a wrong key or name, and [Nearest] returns the suggestion
// alone. Commands, files and requests use the same rule. All functions may be called
// concurrently.
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

// Nearest returns the name that key probably misspells; empty if no name is near. Of
// equally near names it prefers the one that has all letters of key in their order, then
// the one with the longer common beginning, then the first.
func Nearest(key string, names []string) (best string) {
	if len(key) > longest {
		return ""
	}
	most := 1 + len(key)/4
	if len(key) <= 3 {
		most = 1
	}
	least := rank{distance: most + 1}
	for _, name := range names {
		r := rank{Distance(key, name), !within(key, name), -common(key, name)}
		if exchanged(key, name) {
			r.distance = min(r.distance, 1) // two letters that changed places
		}
		if r.before(least) && r.distance <= most {
			best, least = name, r
		}
	}
	return best
}

// rank orders names by their distance from a key.
type rank struct {
	distance int
	apart    bool // the name lacks a letter, or has the letters in another order
	common   int  // the bytes that both begin with, negative
}

func (r rank) before(o rank) bool {
	switch {
	case r.distance != o.distance:
		return r.distance < o.distance
	case r.apart != o.apart:
		return o.apart
	}
	return r.common < o.common
}

// within reports whether name has all letters of key in their order.
func within(key, name string) bool {
	for i := range len(name) {
		if key != "" && key[0] == name[i] {
			key = key[1:]
		}
	}
	return key == ""
}

// common returns the length of the common beginning in bytes.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// exchanged reports whether one name is the other with two adjacent letters exchanged.
func exchanged(a, b string) bool {
	n := common(a, b)
	return len(a) == len(b) && n+1 < len(a) && a[n] == b[n+1] && a[n+1] == b[n] && a[n+2:] == b[n+2:]
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

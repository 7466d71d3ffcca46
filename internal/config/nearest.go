package config

import (
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/spelling"
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
		if d := spelling.Distance(key, name); d <= allowed {
			best, allowed = name, d-1
		}
	}
	return best
}

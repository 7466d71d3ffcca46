package metric

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxLabel bounds a label value, in bytes. It is the bound of the name of an app.
	maxLabel = 63
	// MaxGroups is how many apps, groups or other outside names have label values of their own.
	MaxGroups = 50
	// otherLabel is the label value of all further names.
	otherLabel = "other"
)

// boundedLabel returns a label value of at most 63 bytes. Control characters and invalid text become _.
func boundedLabel(value string) string {
	clean := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, value[:min(len(value), 4*maxLabel)])
	if len(clean) <= maxLabel {
		return clean
	}
	end := maxLabel
	for !utf8.RuneStart(clean[end]) {
		end--
	}
	return clean[:end]
}

// Groups returns the values by bounded label. The first MaxGroups names in order have labels of their own. The
// values of the others, and of names with equal labels, are merged.
func Groups[K cmp.Ordered, V any](values map[K]V, label func(K) string, merge func(a, b V) V) map[string]V {
	out := make(map[string]V, min(len(values), MaxGroups+1))
	for i, key := range slices.Sorted(maps.Keys(values)) {
		name := otherLabel
		if i < MaxGroups {
			name = boundedLabel(label(key))
		}
		value := values[key]
		if before, there := out[name]; there {
			value = merge(before, value)
		}
		out[name] = value
	}
	return out
}

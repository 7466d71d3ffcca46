package supervise

import (
	"bytes"
	"slices"
	"strings"
)

// TagVariable is the environment variable that identifies launched processes. Its value is a list of LAUNCHER.CHILD
// tags, outermost launcher first, separated by colons.
const TagVariable = "WEIR_KEEPER"

// carries reports whether a value of TagVariable contains the tag of a child, or of a launcher, which covers all its
// children.
func carries(value, tag string) bool {
	for element := range strings.SplitSeq(value, ":") {
		if element == tag || strings.HasPrefix(element, tag+".") {
			return true
		}
	}
	return false
}

// withTag returns env with the tag added to the outer value, and each variable once: the last value counts. A reader of
// an environment with two values may take either.
func withTag(env []string, outer, tag string) []string {
	if outer != "" {
		tag = outer + ":" + tag
	}
	return append([]string{TagVariable + "=" + tag}, lastOfEach(withoutTag(env))...)
}

// lastOfEach returns a copy of env without values that a later entry replaces.
func lastOfEach(env []string) []string {
	seen := make(map[string]bool, len(env))
	clean := make([]string, 0, len(env))
	for _, entry := range slices.Backward(env) {
		name, _, isVariable := strings.Cut(entry, "=")
		if isVariable && seen[name] {
			continue
		}
		seen[name] = seen[name] || isVariable
		clean = append(clean, entry)
	}
	slices.Reverse(clean)
	return clean
}

// withoutTag returns a copy of env without TagVariable.
func withoutTag(env []string) []string {
	clean := make([]string, 0, len(env))
	for _, entry := range env {
		if !strings.HasPrefix(entry, TagVariable+"=") {
			clean = append(clean, entry)
		}
	}
	return clean
}

// tagIn returns the value of TagVariable in an environment as /proc shows it, with entries ended by zero bytes; "" if
// it is missing.
func tagIn(environ []byte) string {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(TagVariable+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// ownTag returns the innermost tag in a value of TagVariable: that of the process itself or of the child that it
// descends from.
func ownTag(value string) string {
	return value[strings.LastIndexByte(value, ':')+1:]
}

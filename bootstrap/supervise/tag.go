package supervise

import (
	"bytes"
	"slices"
	"strings"
)

// TagVariable is the environment variable by which launched processes are known:
// a list, outermost launcher first, of LAUNCHER.CHILD, separated by colons.
const TagVariable = "WEIR_KEEPER"

// carries reports whether a value of TagVariable has the tag in its list: that
// of a child, or that of a launcher, which stands for all its children.
func carries(value, tag string) bool {
	for element := range strings.SplitSeq(value, ":") {
		if element == tag || strings.HasPrefix(element, tag+".") {
			return true
		}
	}
	return false
}

// withTag returns env with the tag added to the outer value, and each variable
// once: of several values the last one counts. Who reads an environment with two
// of them may take either.
func withTag(env []string, outer, tag string) []string {
	if outer != "" {
		tag = outer + ":" + tag
	}
	return append([]string{TagVariable + "=" + tag}, lastOfEach(withoutTag(env))...)
}

// lastOfEach returns a copy of env without the values that a later one replaces.
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

// withoutTag returns a copy of env that has no TagVariable.
func withoutTag(env []string) []string {
	clean := make([]string, 0, len(env))
	for _, entry := range env {
		if !strings.HasPrefix(entry, TagVariable+"=") {
			clean = append(clean, entry)
		}
	}
	return clean
}

// tagIn returns the value of TagVariable in an environment as /proc shows it,
// entries ended by zero bytes; empty if it is not there.
func tagIn(environ []byte) string {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(TagVariable+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// ownTag returns the part of a value of TagVariable that is the process's own, or
// that of the child that it descends from: the innermost.
func ownTag(value string) string {
	return value[strings.LastIndexByte(value, ':')+1:]
}

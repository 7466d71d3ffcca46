package supervise

import (
	"bytes"
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

// withTag returns env with the tag added to the outer value.
func withTag(env []string, outer, tag string) []string {
	if outer != "" {
		tag = outer + ":" + tag
	}
	return append([]string{TagVariable + "=" + tag}, withoutTag(env)...)
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

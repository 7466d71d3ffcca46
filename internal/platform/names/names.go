// Package names has the rules for names, one function for each character set. All names are ASCII. Letters and digits
// are in every set.
//
//	Valid         - _ inside            63 bytes   cluster, pool, app, label, partition
//	ValidToken    - _                  128 bytes   node, machine, group: one token of a subject, and a file name
//	ValidKey      - _ / = . inside     253 bytes   what stands for a node, group or lease in a key of a bucket
//	ValidRelease  _ first, . - inside   64 bytes   namespace and name of a release, and so of a signal
//	ValidVersion  _ first, . + - / inside  128 bytes   version of a release: a tag or a branch
//	ValidPlatform _                     64 bytes   operating system or processor, in Go's names
//
// A name of a wider set is escaped or rejected before its use as a name of a narrower set.
//
// All functions are pure and may be called concurrently.
package names

import (
	"fmt"
	"strings"
)

// Bounds in bytes.
const (
	maxName    = 63
	maxToken   = 128
	MaxKey     = 253
	MaxRelease = 64
	MaxVersion = 128
)

// Rule describes the requirement of Valid.
const Rule = "want letters, digits, - and _, at most 63, beginning with a letter or digit"

// Valid reports whether s may name a cluster, a pool or an app.
func Valid(s string) bool { return inSet(s, maxName, "", "-_") }

// ValidToken reports whether s may be one token of a subject.
func ValidToken(s string) bool { return inSet(s, maxToken, "-_", "-_") }

// CheckToken returns an error about what unless ValidToken holds for s.
func CheckToken(what, s string) error {
	if !ValidToken(s) {
		return fmt.Errorf("%s %.130q: want 1 to %d letters, digits, - or _", what, s, maxToken)
	}
	return nil
}

// Token replaces each character that a token may not have by _.
func Token(s string) string {
	return strings.Map(func(r rune) rune {
		if ValidToken(string(r)) {
			return r
		}
		return '_'
	}, s)
}

// ValidKey reports whether s may end a bucket key.
func ValidKey(s string) bool {
	return inSet(s, MaxKey, "-_/=", "-_/=.") && s[len(s)-1] != '.' && !strings.Contains(s, "..")
}

// ValidRelease reports whether s may be the namespace or the name of a release.
func ValidRelease(s string) bool { return inSet(s, MaxRelease, "_", "_.-") }

// ValidVersion reports whether s may be the version of a release: parts separated by single slashes.
func ValidVersion(s string) bool {
	for part := range strings.SplitSeq(s, "/") {
		if !inSet(part, MaxVersion, "_", "_.+-") {
			return false
		}
	}
	return len(s) <= MaxVersion
}

// ValidRef reports whether s is NAMESPACE/NAME@VERSION of a release.
func ValidRef(s string) bool {
	owner, version, _ := strings.Cut(s, "@")
	namespace, name, _ := strings.Cut(owner, "/")
	return ValidRelease(namespace) && ValidRelease(name) && ValidVersion(version)
}

// ValidPlatform reports whether s may be one half of a platform.
func ValidPlatform(s string) bool { return inSet(s, MaxRelease, "_", "_") }

// inSet reports whether s has 1 to most bytes, each a letter, a digit or one of inside. For the first byte, first
// replaces inside.
func inSet(s string, most int, first, inside string) bool {
	allowed := first
	for _, c := range []byte(s) {
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && strings.IndexByte(allowed, c) < 0 {
			return false
		}
		allowed = inside
	}
	return s != "" && len(s) <= most
}

// Subject returns a subject of a cluster: weir.CLUSTER, then the tokens. Each token must be a name of this package or
// a wildcard; Subject does not check it.
func Subject(cluster string, tokens ...string) string {
	return "weir." + cluster + "." + strings.Join(tokens, ".")
}

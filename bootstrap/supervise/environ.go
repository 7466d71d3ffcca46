package supervise

import (
	"slices"
	"strings"
)

// PlainEnvironment returns the entries of env ("KEY=VALUE") that a program needs to run and that hold no secret: PATH,
// HOME, TMPDIR, the locale, the time zone, the settings of the Go runtime, and Clusterman's variables (CMAN_...). It
// adds the variables in names and drops all others.
func PlainEnvironment(env []string, names ...string) []string {
	var plain []string
	for _, entry := range env {
		name, _, isVariable := strings.Cut(entry, "=")
		if isVariable && (isPlain(name) || slices.Contains(names, name)) {
			plain = append(plain, entry)
		}
	}
	return plain
}

func isPlain(name string) bool {
	switch name {
	case "PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "TZ",
		"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GOTRACEBACK", "GODEBUG", "GORACE", "GOCOVERDIR":
		return true
	}
	return strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "CMAN_")
}

package strictyaml

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Problem is one mistake in a file.
type Problem struct {
	File string // may be empty
	Line int    // from 1; 0 if the file as a whole is meant
	Key  string // path of the key, "scaling_limits.min_capacity"
	What string // what is wrong, and what is allowed
}

func (p *Problem) Error() string {
	where := p.File
	switch {
	case p.Line > 0 && p.File == "":
		where = fmt.Sprintf("line %d", p.Line)
	case p.Line > 0:
		where = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	parts := slices.DeleteFunc([]string{where, p.Key}, func(s string) bool { return s == "" })
	return strings.Join(append(parts, p.What), ": ")
}

// Problems are all mistakes of one file, those that have no line first, then in
// the order of its lines.
type Problems []*Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.AsType see each problem.
func (ps Problems) Unwrap() []error {
	out := make([]error, len(ps))
	for i, p := range ps {
		out[i] = p
	}
	return out
}

// OrNil returns ps as an error, in the order of lines; nil if there are none.
func (ps Problems) OrNil() error {
	if len(ps) == 0 {
		return nil
	}
	return Problems(slices.SortedStableFunc(slices.Values(ps), func(a, b *Problem) int { return a.Line - b.Line }))
}

// Lines are those of keys, by their paths.
type Lines map[string]int

// Near returns the line of the key of that path, or of the nearest one above.
func (l Lines) Near(path string) int {
	for path != "" {
		if n, ok := l[path]; ok {
			return n
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 0
}

// Cut returns s without what a terminal cannot print, and after most runes not
// at all.
func Cut(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

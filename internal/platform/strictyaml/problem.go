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
	Line int    // from 1; 0 for the whole file
	Key  string // path of the key, "scaling_limits.min_capacity"
	What string // the problem, and what is valid
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

// Problems are all mistakes of one file: first those without a line, then in order of lines.
type Problems []*Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns each problem, for errors.Is and errors.AsType.
func (ps Problems) Unwrap() []error {
	out := make([]error, len(ps))
	for i, p := range ps {
		out[i] = p
	}
	return out
}

// OrNil returns ps as an error in order of lines; nil if ps is empty.
func (ps Problems) OrNil() error {
	if len(ps) == 0 {
		return nil
	}
	return Problems(slices.SortedStableFunc(slices.Values(ps), func(a, b *Problem) int { return a.Line - b.Line }))
}

// Lines has the line of each key, by its path.
type Lines map[string]int

// Near returns the line of the key of that path, or of the nearest key above.
func (l Lines) Near(path string) int {
	for path != "" {
		if n, ok := l[path]; ok {
			return n
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 0
}

// Cut replaces unprintable characters in s, and cuts s after `most` runes.
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

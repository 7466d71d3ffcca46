package config

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in a file.
type Problem struct {
	File string
	Line int    // from 1; 0 if the file as a whole is meant
	Key  string // path of the key, "scaling_limits.min_capacity"
	What string // what is wrong, and what is allowed
}

func (p *Problem) Error() string {
	where := p.File
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	if p.Key == "" {
		return where + ": " + p.What
	}
	return where + ": " + p.Key + ": " + p.What
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

// orNil returns ps as an error, in the order of lines; nil if there are none.
func (ps Problems) orNil() error {
	if len(ps) == 0 {
		return nil
	}
	return Problems(slices.SortedStableFunc(slices.Values(ps), func(a, b *Problem) int { return a.Line - b.Line }))
}

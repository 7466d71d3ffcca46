package senlin

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in a file.
type Problem struct {
	Line int    // from 1; 0 if the file as a whole is meant
	Path string // of the key, "properties.detection.interval"
	What string // what is wrong, and what is allowed
}

func (p *Problem) Error() string {
	text := p.What
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Line > 0 {
		text = fmt.Sprintf("line %d: %s", p.Line, text)
	}
	return text
}

// Problems are all mistakes of a file, in the order of its lines.
type Problems []*Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.AsType see each problem.
func (ps Problems) Unwrap() []error {
	out := make([]error, len(ps))
	for i, p := range ps {
		out[i] = p
	}
	return out
}

// orNil returns ps in the order of lines; nil if there are none.
func (ps Problems) orNil() error {
	if len(ps) == 0 {
		return nil
	}
	return Problems(slices.SortedStableFunc(slices.Values(ps), func(a, b *Problem) int { return a.Line - b.Line }))
}

// Loss is one thing that is not as it was under Senlin.
type Loss struct {
	Path string `json:"path"` // of the key in Senlin's file, where it is or would be
	What string `json:"what"`
}

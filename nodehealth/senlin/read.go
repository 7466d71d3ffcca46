package senlin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/spelling"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// reader reads values and collects what is wrong and what is lost.
type reader struct {
	problems Problems
	losses   []Loss
	lines    map[string]int // path of a key in our policy -> line of what it was made of
}

func (r *reader) wrong(t tree, path, format string, args ...any) {
	r.problems = append(r.problems, &Problem{Line: t.line, Path: path, What: fmt.Sprintf(format, args...)})
}

func (r *reader) lose(path, format string, args ...any) {
	r.losses = append(r.losses, Loss{Path: path, What: fmt.Sprintf(format, args...)})
}

// fields are the keys of a map.
type fields map[string]tree

// object reads a map of these keys.
func (r *reader) object(t tree, path string, allowed ...string) fields {
	out := fields{}
	if t.kind != object {
		r.wrong(t, path, "is %s: want %s", t.shown(), strings.TrimSuffix("a map of "+strings.Join(allowed, ", "), " of "))
		return out
	}
	for _, p := range t.pairs {
		at, key := strings.TrimPrefix(path+"."+cut(p.key), "."), tree{line: p.line}
		first, twice := out[p.key]
		switch {
		case !slices.Contains(allowed, p.key):
			r.wrong(key, at, "%s", spelling.Unknown(p.key, allowed))
		case twice:
			r.wrong(key, at, "stands here a second time, first on line %d: remove one", first.line)
		default:
			p.value.line = p.line
			out[p.key] = p.value
		}
	}
	return out
}

// sequence reads a list; absent and empty are none.
func (r *reader) sequence(t tree, path string) []tree {
	if t.kind != list && t.kind != nothing {
		r.wrong(t, path, "is %s: want a list", t.shown())
	}
	return t.items
}

// whole reads a whole number, as Senlin does in quotes too.
func (r *reader) whole(f fields, path, key string, absent int) int {
	t, given := f[key]
	if !given {
		return absent
	}
	if t.kind == integer || t.kind == text {
		if n, err := strconv.ParseInt(t.text, 10, 32); err == nil && n >= 0 {
			return int(n)
		}
	}
	r.wrong(t, path+"."+key, "is %s: want a whole number", t.shown())
	return absent
}

// seconds reads a whole number of seconds.
func (r *reader) seconds(f fields, path, key string, absent int) *judge.Duration {
	n := r.whole(f, path, key, absent)
	return new(judge.Duration(time.Duration(n) * time.Second))
}

// flag reads true or false, as Senlin does in quotes too.
func (r *reader) flag(f fields, path, key string, absent bool) bool {
	t, given := f[key]
	if !given {
		return absent
	}
	if t.kind == boolean || t.kind == text {
		switch strings.ToLower(t.text) {
		case "true", "yes", "on":
			return true
		case "false", "no", "off":
			return false
		}
	}
	r.wrong(t, path+"."+key, "is %s: want true or false", t.shown())
	return absent
}

// scalar reads a text, or what stands for one.
func (r *reader) scalar(f fields, path, key string) string {
	t, given := f[key]
	switch {
	case !given:
		return ""
	case t.kind == nothing, t.kind == object, t.kind == list:
		r.wrong(t, path+"."+key, "is %s: want a text", t.shown())
	}
	return t.text
}

// oneOf reads one of these words.
func (r *reader) oneOf(t tree, path string, allowed ...string) string {
	if t.kind == text && slices.Contains(allowed, t.text) {
		return t.text
	}
	r.wrong(t, path, "is %s: want %s", t.shown(), strings.Join(allowed, ", "))
	return allowed[0]
}

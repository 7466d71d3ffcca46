package senlin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	maxFile  = 256 << 10 // bytes
	maxShown = 60        // runes of a value that messages show
)

func bounds() strictyaml.Bounds {
	return strictyaml.Bounds{
		Bytes: maxFile, Tokens: 1 << 14, Nesting: 64,
		TooMuch:  "the file has more than %d tokens",
		Indirect: "anchors, aliases, tags and similar are not supported: write the value out",
	}
}

// Loss is one difference from the behavior under Senlin.
type Loss struct {
	Path string `json:"path"` // of the key in Senlin's file
	What string `json:"what"`
}

// reader reads values and collects problems and losses.
type reader struct {
	problems strictyaml.Problems
	losses   []Loss
	lines    strictyaml.Lines // path of a key in our policy -> its line in Senlin's file
}

func (r *reader) wrong(t strictyaml.Value, path, format string, args ...any) {
	r.problems = append(r.problems, &strictyaml.Problem{Line: t.Line, Key: path, What: fmt.Sprintf(format, args...)})
}

func (r *reader) lose(path, format string, args ...any) {
	r.losses = append(r.losses, Loss{Path: path, What: fmt.Sprintf(format, args...)})
}

// fields are the keys of a map.
type fields map[string]strictyaml.Value

// object reads a map of these keys.
func (r *reader) object(t strictyaml.Value, path string, allowed ...string) fields {
	out := fields{}
	if t.Kind != strictyaml.Map {
		r.wrong(t, path, "is %s: want %s", shown(t), strings.TrimSuffix("a map of "+strings.Join(allowed, ", "), " of "))
		return out
	}
	for _, p := range t.Entries {
		at, key := strings.TrimPrefix(path+"."+strictyaml.Cut(p.Key, maxShown), "."), strictyaml.Value{Line: p.Line}
		first, twice := out[p.Key]
		switch {
		case !slices.Contains(allowed, p.Key):
			r.wrong(key, at, "%s", spelling.Unknown(p.Key, allowed))
		case twice:
			r.wrong(key, at, "is a duplicate, first on line %d: remove one", first.Line)
		default:
			p.Value.Line = p.Line
			out[p.Key] = p.Value
		}
	}
	return out
}

// sequence reads a list. Absent and null are an empty list.
func (r *reader) sequence(t strictyaml.Value, path string) []strictyaml.Entry {
	if t.Kind != strictyaml.List && t.Kind != strictyaml.Null {
		r.wrong(t, path, "is %s: want a list", shown(t))
	}
	return t.Entries
}

// whole reads a whole number, also in quotes, as Senlin does.
func (r *reader) whole(f fields, path, key string, absent int) int {
	t, given := f[key]
	if !given {
		return absent
	}
	if problem := t.NotDecimal(); problem != nil {
		r.wrong(t, path+"."+key, "%s", problem.What)
		return absent
	}
	if t.Kind == strictyaml.Number || t.Kind == strictyaml.Text {
		if n, err := strconv.ParseInt(t.Text, 10, 32); err == nil && n >= 0 {
			return int(n)
		}
	}
	r.wrong(t, path+"."+key, "is %s: want a whole number", shown(t))
	return absent
}

// seconds reads a whole number of seconds.
func (r *reader) seconds(f fields, path, key string, absent int) *judge.Duration {
	n := r.whole(f, path, key, absent)
	return new(judge.Duration(time.Duration(n) * time.Second))
}

// flag reads true or false, also in quotes, as Senlin does.
func (r *reader) flag(f fields, path, key string, absent bool) bool {
	t, given := f[key]
	if !given {
		return absent
	}
	if t.Kind == strictyaml.Flag || t.Kind == strictyaml.Text {
		switch strings.ToLower(t.Text) {
		case "true", "yes", "on":
			return true
		case "false", "no", "off":
			return false
		}
	}
	r.wrong(t, path+"."+key, "is %s: want true or false", shown(t))
	return absent
}

// scalar reads a text or another scalar.
func (r *reader) scalar(f fields, path, key string) string {
	t, given := f[key]
	switch {
	case !given:
		return ""
	case t.Kind == strictyaml.Null, t.Kind == strictyaml.Map, t.Kind == strictyaml.List:
		r.wrong(t, path+"."+key, "is %s: want a text", shown(t))
	}
	return t.Text
}

// oneOf reads one of these words.
func (r *reader) oneOf(t strictyaml.Value, path string, allowed ...string) string {
	if t.Kind == strictyaml.Text && slices.Contains(allowed, t.Text) {
		return t.Text
	}
	r.wrong(t, path, "is %s: want %s", shown(t), strings.Join(allowed, ", "))
	return allowed[0]
}

// shown returns a value on one short line.
func shown(t strictyaml.Value) string {
	switch t.Kind {
	case strictyaml.Null, strictyaml.Map, strictyaml.List:
		return t.Kind.String()
	case strictyaml.Text:
		return strconv.Quote(strictyaml.Cut(t.Text, maxShown))
	}
	return strictyaml.Cut(t.Text, maxShown)
}

package calendar

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
)

func bounds() strictyaml.Bounds {
	return strictyaml.Bounds{
		Bytes: 1 << 20, Tokens: 1 << 14, Nesting: 16,
		TooMuch:  "the file has more than %d words and signs",
		Indirect: "anchors, aliases, tags and the like are not read: write the value out",
	}
}

// read reads the calendars of a pool's file, by app, or the calendar of a file, or of standard input for "-". The error has all
// mistakes of the file.
func (cli *commands) read(path string) (map[string]calendar.Calendar, error) {
	name, text, err := cli.ReadInput(path, bounds().Bytes)
	if err != nil {
		return nil, usage.New(err)
	}
	if path != "-" && isPool(string(text)) {
		return ofPool(path)
	}
	c, problems := decode(text)
	for _, p := range problems {
		p.File = name
	}
	if err := problems.OrNil(); err != nil {
		return nil, usage.New(err)
	}
	return map[string]calendar.Calendar{"": c}, nil
}

// isPool reports whether a file is that of a pool: it has groups, or signals.
func isPool(text string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "resource_groups:") || strings.HasPrefix(line, "autoscale_signals:") {
			return true
		}
	}
	return false
}

// ofPool returns the calendars of a pool's file.
func ofPool(path string) (map[string]calendar.Calendar, error) {
	pool, err := config.ReadPool(path, "calendar", strings.TrimSuffix(filepath.Base(path), ".yaml"))
	if err != nil {
		return nil, usage.New(err)
	}
	all := pool.Calendars()
	if len(all) == 0 {
		return nil, usage.New(fmt.Errorf("%s: no signal is a calendar: add {name: calendar, kind: builtin, parameters: ...} to raise of an app", path))
	}
	return all, nil
}

// decode decodes the text of a file.
func decode(text []byte) (calendar.Calendar, strictyaml.Problems) {
	documents, problem := strictyaml.Values(text, bounds())
	switch {
	case problem != nil:
		return calendar.Calendar{}, strictyaml.Problems{problem}
	case len(documents) == 0:
		return calendar.Calendar{}, strictyaml.Problems{{What: "is empty: want a calendar with time_zone and periods"}}
	case len(documents) > 1:
		return calendar.Calendar{}, strictyaml.Problems{{Line: documents[1].Line, What: "a second document begins: want one in a file"}}
	}
	r := reader{lines: strictyaml.Lines{}}
	parameters, ok := r.value("", documents[0]).(map[string]any)
	if !ok {
		r.bad(documents[0].Line, "", "is %s: want a map with time_zone and periods", documents[0].Kind)
	}
	if len(r.problems) > 0 {
		return calendar.Calendar{}, r.problems
	}
	c, problems := calendar.Decode(parameters, time.LoadLocation)
	for _, p := range problems {
		r.bad(max(1, r.lines.Near(p.Path)), p.Path, "%s", p.What)
	}
	return c, r.problems
}

// reader converts the values of a file to those of parameters.
type reader struct {
	lines    strictyaml.Lines
	problems strictyaml.Problems
}

func (r *reader) bad(line int, path, format string, args ...any) {
	r.problems = append(r.problems, &strictyaml.Problem{Line: line, Key: path, What: fmt.Sprintf(format, args...)})
}

func (r *reader) value(path string, v strictyaml.Value) any {
	switch v.Kind {
	case strictyaml.Map:
		m := make(map[string]any, len(v.Entries))
		for _, e := range v.Entries {
			key := e.Key
			if path != "" {
				key = path + "." + key
			}
			if _, twice := m[e.Key]; twice {
				r.bad(e.Line, key, "is a duplicate, it is first on line %d: remove one", r.lines[key])
				continue
			}
			r.lines[key] = e.Line
			m[e.Key] = r.value(key, e.Value)
		}
		return m
	case strictyaml.List:
		list := make([]any, len(v.Entries))
		for i, e := range v.Entries {
			at := fmt.Sprintf("%s[%d]", path, i)
			r.lines[at] = e.Line
			list[i] = r.value(at, e.Value)
		}
		return list
	case strictyaml.Number:
		x, err := strconv.ParseFloat(v.Text, 64)
		if what := strictyaml.NotDecimal(v.Text); what != "" || err != nil {
			r.bad(v.Line, path, "%s", cmp.Or(what, "is not a decimal number: want one such as 40"))
		}
		return x
	case strictyaml.Flag:
		return v.Text == "true"
	case strictyaml.Text:
		return v.Text
	}
	return nil
}

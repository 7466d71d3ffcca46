package calendar

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Bounds of a calendar.
const (
	mostPeriods = 200
	mostDates   = 1000 // of a list
	mostBegins  = 24   // of a period on a date
	mostName    = 64   // bytes
	mostFor     = 31 * day
	mostLead    = day
	mostTimes   = 100
)

// Problem is one mistake in the parameters of a calendar.
type Problem struct {
	Path string // of the key, "periods[0].from"
	What string // the problem, and what to write instead
}

func (p Problem) Error() string { return p.Path + ": " + p.What }

// Decode decodes the parameters of a calendar: maps, lists, texts and numbers, as decoders of JSON and YAML return them. load
// returns the time zone of an IANA name, as [time.LoadLocation] does. Without problems, the calendar is valid.
func Decode(parameters map[string]any, load func(name string) (*time.Location, error)) (Calendar, []Problem) {
	r := &reader{load: load}
	f := r.fields("", parameters, "time_zone", "dates", "periods")
	zone := f.zone()
	if !f.has("time_zone") {
		f.bad("time_zone", "is missing: want a name of the IANA database, such as Europe/Berlin")
	}
	r.readDates(f)
	var c Calendar
	list, _ := f.list("periods", mostPeriods)
	if !f.has("periods") {
		f.bad("periods", "is missing: want a list of periods")
	}
	first := map[string]int{}
	for i, v := range list {
		p := r.period(fmt.Sprintf("periods[%d]", i), v, zone)
		if n, twice := first[p.name]; twice && p.name != "" {
			r.bad(fmt.Sprintf("periods[%d].name", i), "%q is the name of periods[%d] too: want another name", p.name, n)
		}
		first[p.name] = i
		c.periods = append(c.periods, p)
	}
	if len(r.problems) > 0 {
		return Calendar{}, r.problems
	}
	return c, nil
}

// reader collects the problems of a calendar.
type reader struct {
	load     func(string) (*time.Location, error)
	dates    map[string][]span // lists by their names
	problems []Problem
}

func (r *reader) bad(path, format string, args ...any) {
	r.problems = append(r.problems, Problem{path, fmt.Sprintf(format, args...)})
}

// readDates reads the lists of dates.
func (r *reader) readDates(top fields) {
	if !top.has("dates") {
		return
	}
	f := r.fields("dates", top.values["dates"])
	lists := map[string][]span{}
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		if !isListName(name) {
			f.bad(fmt.Sprintf("%.60s", name), "want a name of letters, digits, _ and -, which begins with a letter")
		}
		lists[name] = f.spans(name) // without r.dates: a list names no other list
	}
	r.dates = lists
}

func isListName(name string) bool {
	for i, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '_' || c == '-')) {
			return false
		}
	}
	return name != "" && len(name) <= mostName
}

// period reads one period.
func (r *reader) period(path string, value any, zone *time.Location) (p period) {
	f := r.fields(path, value, "name", "time_zone", "days", "on", "cron", "rrule", "from", "to", "for", "lead", "at_least", "times", "plus", "except")
	if f.values == nil {
		return p
	}
	p.name, p.zone = f.name(), zone
	if f.has("time_zone") {
		p.zone = f.zone()
	}
	switch f.one("days", "days", "on", "cron", "rrule") {
	case "days":
		p.days = f.days()
	case "on":
		p.days.on = f.spans("on")
	case "cron":
		p.days, p.begins = f.cron()
	case "rrule":
		p.days = f.rrule()
	}
	p.days.except = f.spans("except")
	if f.has("cron") {
		f.without("from", "cron has the begin: remove it")
		f.without("to", "cron has only begins: write for, such as 90m")
		if !f.has("for") {
			f.bad("for", "is missing: want how long the period lasts, such as 90m")
		}
		p.length = f.duration("for", mostFor)
	} else {
		f.interval(&p)
	}
	p.lead = f.duration("lead", mostLead)
	switch f.one("at_least", "at_least", "times", "plus") {
	case "at_least":
		p.raise.AtLeast = f.amounts("at_least")
	case "times":
		p.raise.Times = f.times()
	case "plus":
		p.raise.Plus = f.amounts("plus")
	}
	return p
}

// fields are the keys of a map.
type fields struct {
	r      *reader
	path   string
	values map[string]any // nil: the value is not a map
}

// fields returns the keys of a map, and reports other keys than the allowed ones. Without allowed ones, all are allowed.
func (r *reader) fields(path string, value any, allowed ...string) fields {
	m, ok := value.(map[string]any)
	f := fields{r, path, m}
	if !ok {
		r.bad(path, "is %s: want a map", kindOf(value))
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if len(allowed) > 0 && !slices.Contains(allowed, key) {
			f.bad(fmt.Sprintf("%.60s", key), "no such key (allowed: %s)", strings.Join(allowed, ", "))
		}
	}
	return f
}

func (f fields) bad(key, format string, args ...any) {
	if f.path != "" {
		key = f.path + "." + key
	}
	f.r.bad(key, format, args...)
}

func (f fields) has(key string) bool { _, ok := f.values[key]; return ok }

// without reports a key that must not be there.
func (f fields) without(key, what string) {
	if f.has(key) {
		f.bad(key, "%s", what)
	}
}

// one returns the only key that is set. It reports none or several at the key at.
func (f fields) one(at string, keys ...string) (key string) {
	for _, k := range keys {
		switch {
		case f.has(k) && key != "":
			f.bad(k, "%s is set too: want one of %s; for both, write two periods", key, strings.Join(keys, ", "))
			return ""
		case f.has(k):
			key = k
		}
	}
	if key == "" {
		f.bad(at, "is missing: want one of %s", strings.Join(keys, ", "))
	}
	return key
}

// text returns a text; ok is false if it is missing or not a text.
func (f fields) text(key, want string) (text string, ok bool) {
	v, has := f.values[key]
	text, ok = v.(string)
	if has && !ok {
		f.bad(key, "is %s: want %s", kindOf(v), want)
	}
	return text, ok
}

func (f fields) list(key string, most int) ([]any, bool) {
	v, has := f.values[key]
	list, ok := v.([]any)
	switch {
	case has && !ok:
		f.bad(key, "is %s: want a list", kindOf(v))
	case has && len(list) == 0:
		f.bad(key, "is empty: want at least one element, or no such key")
	case len(list) > most:
		f.bad(key, "has %d elements: want at most %d", len(list), most)
		return nil, false
	}
	return list, ok
}

func (f fields) name() string {
	const want = `want a name such as "office hours"`
	name, ok := f.text("name", `a name such as "office hours"`)
	plain := strings.IndexFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
	switch {
	case !f.has("name"):
		f.bad("name", "is missing: %s", want)
	case ok && (name == "" || len(name) > mostName || name != strings.TrimSpace(name) || !plain):
		f.bad("name", "is %.70q: %s, of at most %d bytes, without control characters or blanks around it", name, want, mostName)
	}
	return name
}

// zone reads a time zone. Names without a slash are refused: EST has no summer time and IST is three zones.
func (f fields) zone() *time.Location {
	const want = "want a name of the IANA database, such as Europe/Berlin"
	name, ok := f.text("time_zone", "a name of the IANA database, such as Europe/Berlin")
	area, _, _ := strings.Cut(name, "/")
	switch {
	case !ok:
		return nil
	case name == "UTC":
		return time.UTC
	case area == name, area == "posix", area == "right", area == "SystemV":
		f.bad("time_zone", "%.40q is not a name of an area and a city: %s, or UTC", name, want)
		return nil
	case area == "Etc":
		f.bad("time_zone", "%.40q has the opposite sign of an offset from UTC: want UTC, or an area and a city, such as Asia/Dubai", name)
		return nil
	}
	zone, err := f.r.load(name)
	if err != nil {
		f.bad("time_zone", "no time zone has the name %.40q: %s", name, want)
		return nil
	}
	return zone
}

// interval reads from, and to or for.
func (f fields) interval(p *period) {
	from, ok := f.clock("from", false)
	if !f.has("from") {
		f.bad("from", `is missing: want a time of the clock, such as "08:00"`)
	}
	p.begins = []int{from}
	switch f.one("to", "to", "for") {
	case "for":
		p.length = f.duration("for", mostFor)
	case "to":
		to, okToo := f.clock("to", true)
		if ok && okToo && to == from {
			f.bad("to", `equals from: for a whole day, write from: "00:00" and to: "24:00"; for other 24 hours, for: 24h`)
		}
		if to <= from {
			to += 24 * 60
		}
		p.to = to
	}
}

// clock reads a time of the clock, in minutes of the day. An end may be 24:00.
func (f fields) clock(key string, end bool) (minute int, ok bool) {
	const want = `a time of the clock with two digits each, such as "08:00"`
	text, ok := f.text(key, want)
	if !ok {
		return 0, false
	}
	if text == "24:00" {
		if !end {
			f.bad(key, `is "24:00": want "00:00", and the next day`)
		}
		return 24 * 60, end
	}
	t, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		f.bad(key, "is %.20q: want %s", text, want)
		return 0, false
	}
	return t.Hour()*60 + t.Minute(), true
}

// duration reads an elapsed time; 0 if it is missing.
func (f fields) duration(key string, most time.Duration) time.Duration {
	const want = "a duration such as 90m or 26h"
	text, ok := f.text(key, want)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > most {
		f.bad(key, "is %.20q: want %s, above 0 and at most %dh", text, want, most/time.Hour)
		return 0
	}
	return d
}

func (f fields) times() float64 {
	x, ok := numberOf(f.values["times"])
	if !ok || !(x > 1 && x <= mostTimes) {
		f.bad("times", "is %.20v: want a number above 1 and at most %d; a calendar only raises", f.values["times"], mostTimes)
	}
	return x
}

// amounts reads amounts of resources, all above 0.
func (f fields) amounts(key string) (request resource.Request) {
	var kinds []string
	for _, k := range resource.Kinds() {
		kinds = append(kinds, k.String())
	}
	in := f.r.fields(f.path+"."+key, f.values[key], kinds...)
	if in.values != nil && len(in.values) == 0 {
		f.bad(key, "is empty: want an amount such as {cpus: 40}")
	}
	for _, k := range resource.Kinds() {
		if !in.has(k.String()) {
			continue
		}
		x, ok := numberOf(in.values[k.String()])
		with := request.With(k, x)
		if !ok || !(x > 0) || with.Validate() != nil {
			in.bad(k.String(), "is %.20v: want a number above 0; a calendar only raises", in.values[k.String()])
			continue
		}
		request = with
	}
	return request
}

func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	}
	return 0, false
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "empty"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case map[string]any:
		return "a map"
	case []any:
		return "a list"
	}
	return "a number"
}

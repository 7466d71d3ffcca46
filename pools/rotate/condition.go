package rotate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Subject is what a condition is about: a machine as the provider reports it. An empty value is unknown.
type Subject struct {
	Group, Image, Template, Type, Zone string
	Current                            string        // the template that its group launches now: the value "current"
	Market                             string        // spot or on-demand
	Age                                time.Duration // since the launch; negative: unknown
}

// Condition is a list of terms, such as "age>20d,zone=a". A machine matches if all terms hold. The zero value matches each machine.
type Condition struct{ terms []term }

// term is one comparison. If values is nil, it is about the age.
type term struct {
	key    string
	not    bool
	values []string
	age    time.Duration
}

const (
	maxCondition = 1000 // bytes
	maxTerms     = 20
	maxAge       = 10 * 365 * 24 * time.Hour

	wantTerm = `want age>20d, or one of group, image, market, template, type and zone with =, != or in, such as "type in m4.large m4.xlarge"`
)

var keys = []string{"group", "image", "market", "template", "type", "zone"}

// Parse reads a condition: terms with a comma between them. A term is age>DURATION, KEY=VALUE, KEY!=VALUE, or KEY in VALUE VALUE.
func Parse(text string) (Condition, error) {
	var c Condition
	if len(text) > maxCondition {
		return c, fmt.Errorf("a condition of %d bytes: want at most %d", len(text), maxCondition)
	}
	parts := strings.Split(text, ",")
	if len(parts) > maxTerms {
		return c, fmt.Errorf("%d terms: want at most %d", len(parts), maxTerms)
	}
	for _, part := range parts {
		t, err := parseTerm(strings.TrimSpace(part))
		if err != nil {
			return Condition{}, err
		}
		c.terms = append(c.terms, t)
	}
	return c, nil
}

func parseTerm(text string) (t term, err error) {
	end := strings.IndexAny(text, " =!<>")
	if end < 0 {
		end = len(text)
	}
	if text[:end] == "age" {
		limit, is := strings.CutPrefix(strings.TrimSpace(text[end:]), ">")
		if !is {
			return t, fmt.Errorf("%.80q: want age> and a duration, such as age>20d", text)
		}
		if t.age, err = ParseAge(strings.TrimSpace(limit)); err != nil {
			return t, fmt.Errorf("%.80q: %w", text, err)
		}
		return term{key: "age", age: t.age}, nil
	}
	if !slices.Contains(keys, text[:end]) {
		return t, fmt.Errorf("%.80q: %s", text, wantTerm)
	}
	t.key, text = text[:end], strings.TrimSpace(text[end:])
	switch {
	case strings.HasPrefix(text, "!="):
		t.not, t.values = true, []string{strings.TrimSpace(text[2:])}
	case strings.HasPrefix(text, "="):
		t.values = []string{strings.TrimSpace(text[1:])}
	case strings.HasPrefix(text, "in "):
		t.values = strings.FieldsFunc(text[3:], func(r rune) bool { return strings.ContainsRune(" |()", r) })
	default:
		return t, fmt.Errorf("%.80q: %s", t.key+" "+text, wantTerm)
	}
	for _, v := range t.values {
		if v == "" || strings.ContainsAny(v, " =!<>") {
			return t, fmt.Errorf("%s has the value %.80q: want a name", t.key, v)
		}
	}
	if len(t.values) == 0 {
		return t, fmt.Errorf("%s in: want one or more names after it", t.key)
	}
	if t.key == "market" && slices.ContainsFunc(t.values, func(v string) bool { return v != "spot" && v != "on-demand" }) {
		return t, fmt.Errorf("market has the value %.80q: want spot or on-demand", t.values)
	}
	return t, nil
}

// ParseAge reads a duration, in which a day may be "d": 30d, 12h, 90m.
func ParseAge(text string) (time.Duration, error) {
	const want = "want a duration such as 30d or 12h"
	var d time.Duration
	if days, is := strings.CutSuffix(text, "d"); is {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || !(n >= 0 && n <= maxAge.Hours()/24) {
			return 0, fmt.Errorf("%.40q: %s", text, want)
		}
		d = time.Duration(n * 24 * float64(time.Hour))
	} else {
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			return 0, fmt.Errorf("%.40q: %s", text, want)
		}
	}
	if d < 0 || d > maxAge {
		return 0, errors.New("want an age of 0 to 3650d")
	}
	return d, nil
}

// Matches reports whether a machine matches. known is false if it depends on a value that is unknown: then it does not match.
func (c Condition) Matches(s Subject) (match, known bool) {
	match, known = true, true
	for _, t := range c.terms {
		holds, sure := t.holds(s)
		if sure && !holds {
			return false, true
		}
		known = known && sure
	}
	return match && known, known
}

func (t term) holds(s Subject) (holds, known bool) {
	if t.values == nil {
		return s.Age > t.age, s.Age >= 0
	}
	value := map[string]string{"group": s.Group, "image": s.Image, "market": s.Market, "template": s.Template, "type": s.Type, "zone": s.Zone}[t.key]
	values := t.values
	if i := slices.Index(values, "current"); i >= 0 && t.key == "template" {
		if values = slices.Clone(values); s.Current == "" && !slices.Contains(values, value) {
			return false, false
		}
		values[i] = s.Current
	}
	return slices.Contains(values, value) != t.not, value != ""
}

// matchesNew reports whether a machine would match although it is new, of the template that the group launches now. A condition with
// nothing but a group matches none: it is a roll.
func (c Condition) matchesNew(s Subject) bool {
	s.Age, s.Template = 0, cmp.Or(s.Current, s.Template)
	match, _ := c.Matches(s)
	return match && slices.ContainsFunc(c.terms, func(t term) bool { return t.key != "group" })
}

package awsfake

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fault is an error response.
type fault struct {
	status        int
	code, message string
}

func (f *fault) Error() string { return f.code + ": " + f.message }

func refuse(code, format string, args ...any) error {
	return &fault{http.StatusBadRequest, code, fmt.Sprintf(format, args...)}
}

// params are a request's parameters, by their names on the wire.
type params map[string]string

// list returns the values of prefix.1, prefix.2 and so on.
func (p params) list(prefix string) []string {
	var out []string
	for n := 1; ; n++ {
		v, ok := p[prefix+"."+strconv.Itoa(n)]
		if !ok {
			return out
		}
		out = append(out, v)
	}
}

// whole returns an integer within bounds, or the default or if the parameter is missing.
func (p params) whole(name string, or, least, most int) (int, error) {
	text, ok := p[name]
	if !ok {
		return or, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, refuse("InvalidParameterValue", "Value ( %s ) for parameter %s is invalid. Expecting a value from %d to %d.", text, name, least, most)
	}
	return n, nil
}

// truth returns a boolean. A missing parameter is false.
func (p params) truth(name string) bool { return p[name] == "true" }

// unknown returns the names of parameters that are not in known. A name in known that ends in a dot
// matches all names with that prefix.
func (p params) unknown(known []string) []string {
	var out []string
	for name := range p {
		if !slices.ContainsFunc(known, func(k string) bool { return k == name || strings.HasSuffix(k, ".") && strings.HasPrefix(name, k) }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// filter is a filter of a describing request: it matches any of the values.
type filter struct {
	name   string
	values []string
}

// filters returns the filters with that prefix. value is the name of the list of values in each.
func (p params) filters(prefix, value string) []filter {
	var out []filter
	for n := 1; ; n++ {
		at := prefix + "." + strconv.Itoa(n)
		name, ok := p[at+".Name"]
		if !ok {
			return out
		}
		out = append(out, filter{name, p.list(at + "." + value)})
	}
}

// has reports whether any of the texts matches any of the values. Values may contain the wildcards
// * and ?.
func (f filter) has(texts ...string) bool {
	return slices.ContainsFunc(f.values, func(pattern string) bool {
		return slices.ContainsFunc(texts, func(text string) bool {
			ok, err := path.Match(pattern, text)
			return ok || err != nil && pattern == text
		})
	})
}

// tagged evaluates the filters by tag. known reports whether the filter is one of them.
func (f filter) tagged(tags map[string]string) (ok, known bool) {
	if key, is := strings.CutPrefix(f.name, "tag:"); is {
		value, has := tags[key]
		return has && f.has(value), true
	}
	switch f.name {
	case "tag-key", "tag-value":
		for key, value := range tags {
			if f.name == "tag-key" && f.has(key) || f.name == "tag-value" && f.has(value) {
				return true, true
			}
		}
		return false, true
	}
	return false, false
}

// page returns a part of a list, and the token of the next part or "".
func page[T any](all []T, size int, token string) (part []T, next string, err error) {
	from := 0
	if token != "" {
		raw, bad := base64.URLEncoding.DecodeString(token)
		if from, err = strconv.Atoi(string(raw)); bad != nil || err != nil || from < 0 {
			return nil, "", refuse("InvalidNextToken", "The token '%s' is invalid.", token)
		}
	}
	from = min(from, len(all))
	to := min(from+size, len(all))
	if to < len(all) {
		next = base64.URLEncoding.EncodeToString([]byte(strconv.Itoa(to)))
	}
	return all[from:to], next, nil
}

// timestamp formats a time as both XML services do. A zero time is "".
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

package awstest

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

// fault is an answer that refuses.
type fault struct {
	status        int
	code, message string
}

func (f *fault) Error() string { return f.code + ": " + f.message }

func refuse(code, format string, args ...any) error {
	return &fault{http.StatusBadRequest, code, fmt.Sprintf(format, args...)}
}

// params are a request's parameters, by the names that are on the wire.
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

// whole returns an integer within bounds; absent: or.
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

// truth returns a boolean; absent: false.
func (p params) truth(name string) bool { return p[name] == "true" }

// unknown returns the names of parameters that are not in known. One that ends
// in a dot stands for all that begin so.
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

// filter is a filter of a describing request: any of the values will do.
type filter struct {
	name   string
	values []string
}

// filters returns the filters beneath prefix, whose values are beneath each one's value.
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

// has: any of these texts matches any of the values; * and ? stand for what they usually do.
func (f filter) has(texts ...string) bool {
	return slices.ContainsFunc(f.values, func(pattern string) bool {
		return slices.ContainsFunc(texts, func(text string) bool {
			ok, err := path.Match(pattern, text)
			return ok || err != nil && pattern == text
		})
	})
}

// tagged answers the filters that every tagged thing has; known: it is one of these.
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

// page returns a part of a listing, and the token of the next part, if any.
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

// timestamp is how both XML services write a time; none: absent.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

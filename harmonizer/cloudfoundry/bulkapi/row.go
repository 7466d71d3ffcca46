package bulkapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

var (
	errMissing = errors.New("is missing")
	errKind    = errors.New("is neither a string nor a whole number")
	errTime    = errors.New("is not a time")
)

// wireRow is one app in an answer. It is reused for the next app, with the capacity of its
// fields.
type wireRow struct {
	ID        json.RawMessage `json:"id"`
	Instances json.RawMessage `json:"instances"`
	State     json.RawMessage `json:"state"`
	Package   json.RawMessage `json:"package_state"`
	Version   json.RawMessage `json:"version"`
	Updated   json.RawMessage `json:"updated_at"`
	Memory    json.RawMessage `json:"memory"`
	Framework json.RawMessage `json:"framework"`
	Runtime   json.RawMessage `json:"runtime"`
}

func (w *wireRow) reset() {
	for _, f := range [...]*json.RawMessage{
		&w.ID, &w.Instances, &w.State, &w.Package, &w.Version, &w.Updated, &w.Memory, &w.Framework, &w.Runtime,
	} {
		*f = (*f)[:0]
	}
}

// app decodes the row of the app with this name. Its error names a field.
func (w *wireRow) app(name string, f Footprint) (api.App, error) {
	var r reader
	a := api.App{
		Name: name, Pool: f.Pool, CPUs: f.CPUs, Disk: f.Disk,
		Instances: r.instances(w.Instances),
		State:     api.AppState(r.oneOf("state", w.State, string(api.AppStarted), string(api.AppStopped))),
		Package: api.PackageState(r.oneOf("package_state", w.Package,
			string(api.PackageStaged), string(api.PackagePending), string(api.PackageFailed))),
		Version: r.id("version", w.Version),
		Updated: r.time("updated_at", w.Updated),
		Mem:     r.memory(w.Memory, f.Mem),
		Labels:  r.labels(w),
	}
	if r.err == nil {
		r.err = message.ValidateApp(a)
	}
	if r.err != nil {
		return api.App{}, fmt.Errorf("app %.64q: %w", name, r.err)
	}
	return a, nil
}

// reader decodes single values and stores the first problem.
type reader struct{ err error }

func (r *reader) fail(field string, problem error) {
	if r.err == nil {
		r.err = fmt.Errorf("%s %w", field, problem)
	}
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || raw[0] == 'n' }

func isNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// id decodes a required string or whole number that is not empty.
func (r *reader) id(field string, raw json.RawMessage) string {
	if absent(raw) {
		r.fail(field, errMissing)
		return ""
	}
	s, err := readID(raw)
	if err != nil {
		r.fail(field, err)
	}
	return s
}

func readID(raw json.RawMessage) (string, error) {
	s, ok := text(raw)
	switch {
	case ok && s == "":
		return "", errMissing
	case ok:
	case isNumber(raw) && !bytes.ContainsAny(raw, ".eE"):
		s = string(raw)
	default:
		return "", errKind
	}
	if len(s) > message.MaxID {
		return "", fmt.Errorf("is longer than %d bytes", message.MaxID)
	}
	return s, nil
}

// equalsText reports whether the value is that text, written without escapes.
func equalsText(raw json.RawMessage, s string) bool {
	return len(raw) == len(s)+2 && raw[0] == '"' && string(raw[1:len(raw)-1]) == s
}

// text decodes a string.
func text(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	for _, c := range inner {
		if c == '\\' || c >= 0x7f {
			var s string
			err := json.Unmarshal(raw, &s)
			return s, err == nil
		}
	}
	return string(inner), true
}

func (r *reader) instances(raw json.RawMessage) int {
	if absent(raw) {
		r.fail("instances", errMissing)
		return 0
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		r.fail("instances", errors.New("is not a whole number, or too large"))
	}
	return n
}

func (r *reader) oneOf(field string, raw json.RawMessage, known ...string) string {
	if absent(raw) {
		r.fail(field, errMissing)
		return ""
	}
	for _, k := range known {
		if equalsText(raw, k) {
			return k
		}
	}
	r.fail(field, fmt.Errorf("is %.64q; use one of %s", raw, strings.Join(known, ", ")))
	return ""
}

// memory decodes MB; other is for a row without memory.
func (r *reader) memory(raw json.RawMessage, other float64) float64 {
	if absent(raw) {
		return other
	}
	if !isNumber(raw) {
		r.fail("memory", errors.New("is not a number"))
		return 0
	}
	mb, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		r.fail("memory", errors.New("is out of range"))
	}
	return mb
}

// labels decodes the labels of early Cloud Controllers.
func (r *reader) labels(w *wireRow) map[string]string {
	var labels map[string]string
	for _, l := range [...]struct {
		key string
		raw json.RawMessage
	}{{"framework", w.Framework}, {"runtime", w.Runtime}} {
		if absent(l.raw) {
			continue
		}
		value, ok := text(l.raw)
		if !ok {
			r.fail(l.key, errors.New("is not a string"))
			continue
		}
		if value == "" {
			continue
		}
		if labels == nil {
			labels = make(map[string]string, 2)
		}
		labels[l.key] = value
	}
	return labels
}

// time decodes the text of a time, or unix seconds, whole or fractional.
func (r *reader) time(field string, raw json.RawMessage) time.Time {
	if absent(raw) {
		r.fail(field, errMissing)
		return time.Time{}
	}
	var t time.Time
	s, ok := text(raw)
	switch {
	case ok:
		t, ok = parseTime(s)
	case isNumber(raw):
		t, ok = unixTime(string(raw))
	}
	if !ok || t.Unix() < 0 {
		r.fail(field, errTime)
		return time.Time{}
	}
	return t.UTC()
}

// parseTime parses "2012-11-16T10:00:00Z", "... 10:00:00 UTC", "... 10:00:00 +0000" and
// similar forms, with or without a fraction. The default zone is UTC.
func parseTime(s string) (time.Time, bool) {
	layout := time.DateTime
	switch _, clock, _ := strings.Cut(s, " "); {
	case strings.HasSuffix(s, " UTC"):
		layout = "2006-01-02 15:04:05 UTC"
	case strings.Contains(clock, " "):
		layout = "2006-01-02 15:04:05 -0700"
	case strings.HasSuffix(s, "Z") || len(s) > 6 && s[len(s)-3] == ':' && (s[len(s)-6] == '+' || s[len(s)-6] == '-'):
		layout = time.RFC3339
	case strings.Contains(s, "T"):
		layout = "2006-01-02T15:04:05-0700"
	}
	t, err := time.Parse(layout, s)
	return t, err == nil
}

func unixTime(s string) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil || seconds < 0 || seconds > latest {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// latest is the largest accepted time, in unix seconds: the end of the year 9999.
const latest = 253402300799

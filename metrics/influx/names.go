package influx

import (
	"encoding/hex"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// mark begins a byte that is written as two hexadecimal digits.
const mark = '␛'

// place is the measurement and the field of a metric.
type place struct{ measurement, field string }

// placeOf returns the place to which a metric is written. The measurement of an application differs from those of the
// types.
func placeOf(t metrics.Type, name string) place {
	app, metric, ok := strings.Cut(name, ",")
	if t != metrics.App || !ok || app == "" || metric == "" {
		return place{string(t), key(name)}
	}
	return place{appMeasurement(app), key(metric)}
}

func appMeasurement(app string) string {
	if isType(app) {
		return hexed(app[:1]) + app[1:]
	}
	return key(app)
}

func isType(measurement string) bool {
	return slices.Contains(metrics.Types(), metrics.Type(measurement))
}

// nameAt returns the name of a metric of that type at a place. ok is false if the place lacks it.
func nameAt(t metrics.Type, p place) (name string, ok bool) {
	if t != metrics.App || p.measurement == string(metrics.App) {
		return unescape(p.field), p.measurement == string(t)
	}
	app := unescape(p.measurement)
	return metrics.AppName(app, unescape(p.field)), !isType(p.measurement) && !strings.Contains(app, ",")
}

// writtenAs returns all measurements and fields that a metric may have.
func writtenAs(t metrics.Type, name string) (measurements, fields []string) {
	where := placeOf(t, name)
	if where.measurement == string(t) {
		return []string{where.measurement}, spellings(where.field, name)
	}
	app, metric, _ := strings.Cut(name, ",")
	return appMeasurements(app), spellings(where.field, metric)
}

// appMeasurements returns the possible measurements of an application.
func appMeasurements(app string) []string {
	if isType(app) { // the plain name belongs to the type
		return []string{appMeasurement(app)}
	}
	return spellings(appMeasurement(app), app)
}

// spellings returns the spellings of a string in the bucket: ours and, if it differs, the plain one of other writers.
func spellings(ours, plain string) []string {
	if ours == plain {
		return []string{ours}
	}
	return []string{ours, plain}
}

// key returns our spelling of the name of a measurement, tag or field. InfluxDB 1.8 calls the value
// of a point "$", so a filter by a tag of that name finds nothing.
func key(name string) string {
	if name == "time" || name == "$" || strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#") {
		return hexed(name[:1]) + escaped(name[1:])
	}
	return escaped(name)
}

// escaped returns s in characters that every InfluxDB preserves. s is UTF-8.
func escaped(s string) string {
	if !strings.ContainsFunc(s, isLost) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isLost(r) {
			b.WriteString(hexed(string(r)))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isLost reports whether a character is special in line protocol even if escaped, is refused in keys, or is the mark.
func isLost(r rune) bool {
	return !unicode.IsPrint(r) || r == '\\' || r == mark || r == utf8.RuneError
}

func hexed(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteRune(mark)
		b.WriteString(hex.EncodeToString([]byte{c}))
	}
	return b.String()
}

// unescape reverses escaped and key. It does not change a string with invalid escapes.
func unescape(s string) string {
	parts := strings.Split(s, string(mark))
	if len(parts) == 1 {
		return s
	}
	out := []byte(parts[0])
	for _, part := range parts[1:] {
		if len(part) < 2 {
			return s
		}
		c, err := hex.DecodeString(part[:2])
		if err != nil {
			return s
		}
		out = append(append(out, c...), part[2:]...)
	}
	if !utf8.Valid(out) {
		return s
	}
	return string(out)
}

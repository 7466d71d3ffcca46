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

// place is where the series of a metric are.
type place struct{ measurement, field string }

// placeOf returns where a metric is written. The measurement of an application can
// not be that of a type.
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

// nameAt returns the name of the metric of that type at a place, and whether there
// is one.
func nameAt(t metrics.Type, p place) (name string, ok bool) {
	if t != metrics.App || p.measurement == string(metrics.App) {
		return unescape(p.field), p.measurement == string(t)
	}
	app := unescape(p.measurement)
	return metrics.AppName(app, unescape(p.field)), !isType(p.measurement) && !strings.Contains(app, ",")
}

// writtenAs returns all measurements and fields in which a metric may be.
func writtenAs(t metrics.Type, name string) (measurements, fields []string) {
	where := placeOf(t, name)
	if where.measurement == string(t) {
		return []string{where.measurement}, spellings(where.field, name)
	}
	app, metric, _ := strings.Cut(name, ",")
	return appMeasurements(app), spellings(where.field, metric)
}

// appMeasurements returns the measurements of an application.
func appMeasurements(app string) []string {
	if isType(app) { // which is another's
		return []string{appMeasurement(app)}
	}
	return spellings(appMeasurement(app), app)
}

// spellings returns how a string may stand in the bucket: as we write it and, if
// that is not the same, as others may.
func spellings(ours, plain string) []string {
	if ours == plain {
		return []string{ours}
	}
	return []string{ours, plain}
}

// key returns how the name of a measurement, tag or field is written.
func key(name string) string {
	if name == "time" || strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#") {
		return hexed(name[:1]) + escaped(name[1:])
	}
	return escaped(name)
}

// escaped returns s, which is UTF-8, in characters that every InfluxDB keeps.
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

// isLost reports whether a character has a meaning in line protocol that escapes do
// not take from it, is refused where keys are validated, or is the mark.
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

// unescape undoes escaped and key. What only looks as if it were escaped stays as
// it is.
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

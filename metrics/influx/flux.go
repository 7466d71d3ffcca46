package influx

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// Names of the two results of every query: what was asked for, and the one line
// that says that there is no more.
const (
	wantedResult = "points"
	endResult    = "points_end" // results come in order of name
	endCell      = "end"
)

// maxPlaces bounds the places that one query names.
const maxPlaces = 100

// flux is a query, made of parts none of which is a string of somebody else's but
// as a literal.
type flux struct {
	bucket   string
	from, to int64 // unix seconds, inclusive
	filter   string
	first    bool // of each series the first point only
	drop     []string
}

// String returns the program. It uses nothing that the Flux of InfluxDB 1.8 (0.65)
// does not know.
func (f flux) String() string {
	var b strings.Builder
	b.WriteString("import \"csv\"\n")
	fmt.Fprintf(&b, "from(bucket: %s)\n", literal(f.bucket))
	// InfluxDB 2 leaves out what is at the stop, 1.8 does not: so it is at no time that
	// anything is measured at.
	stop := time.Unix(f.to+1, -1)
	fmt.Fprintf(&b, "  |> range(start: %s, stop: %s)\n", moment(time.Unix(f.from, 0)), moment(stop))
	fmt.Fprintf(&b, "  |> filter(fn: (r) => %s)\n", f.filter)
	if f.first {
		b.WriteString("  |> first()\n")
	}
	columns := make([]string, len(f.drop))
	for i, name := range f.drop {
		columns[i] = literal(name)
	}
	fmt.Fprintf(&b, "  |> drop(columns: [%s])\n", strings.Join(columns, ", "))
	fmt.Fprintf(&b, "  |> yield(name: %s)\n", literal(wantedResult))
	end := "#datatype,string,long,string\n#group,false,false,false\n#default,_result,,\n,result,table,end\n,,0," + endCell + "\n"
	fmt.Fprintf(&b, "csv.from(csv: %s)\n  |> yield(name: %s)\n", literal(end), literal(endResult))
	return b.String()
}

// moment returns a time literal.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// literal returns a string literal of s, whatever is in it. All that could have a
// meaning within one, in any version, is written as the digits of its bytes.
func literal(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r >= 0x80 && unicode.IsPrint(r), unicode.IsLetter(r), unicode.IsDigit(r), strings.ContainsRune(" _-.,:/#=|", r):
			b.WriteRune(r)
		default:
			for _, c := range []byte(string(r)) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}

// atPlaces holds of the series at any of these places.
func atPlaces(places []place) string {
	terms := make([]string, len(places))
	for i, p := range places {
		terms[i] = allOf(column("_measurement", []string{p.measurement}), column("_field", []string{p.field}))
	}
	return anyOf(terms)
}

// ofApps holds of all series that may be an application's metrics, or those of one
// application.
func ofApps(app string) string {
	if app != "" {
		return column("_measurement", append(appMeasurements(app), string(metrics.App)))
	}
	var terms []string
	for _, t := range metrics.Types() {
		if t != metrics.App {
			terms = append(terms, fmt.Sprintf("r._measurement != %s", literal(string(t))))
		}
	}
	return allOf(terms...)
}

// withDimensions holds of series with these tags.
func withDimensions(d metrics.Dimensions) []string {
	var terms []string
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if value := d[name]; value != "" {
			terms = append(terms, column(key(name), spellings(escaped(value), value)))
		}
	}
	return terms
}

// column holds of rows in which a column is one of these.
func column(name string, values []string) string {
	terms := make([]string, len(values))
	for i, value := range values {
		terms[i] = fmt.Sprintf("r[%s] == %s", literal(name), literal(value))
	}
	return anyOf(terms)
}

func allOf(terms ...string) string { return "(" + strings.Join(terms, " and ") + ")" }

func anyOf(terms []string) string { return "(" + strings.Join(terms, " or ") + ")" }

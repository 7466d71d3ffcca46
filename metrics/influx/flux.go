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

// Names of the two results of every query: the points, and one line that marks the end.
const (
	wantedResult = "points"
	endResult    = "points_end" // results are in order of name
	endCell      = "end"
)

// maxPlaces bounds the places in one query.
const maxPlaces = 100

// flux is a query. It contains foreign strings only as literals.
type flux struct {
	bucket   string
	from, to int64 // unix seconds, inclusive
	filter   string
	first    bool // only the first point of each series
	drop     []string
}

// String returns the program. It uses only features of the Flux of InfluxDB 1.8 (0.65).
func (f flux) String() string {
	var b strings.Builder
	b.WriteString("import \"csv\"\n")
	fmt.Fprintf(&b, "from(bucket: %s)\n", literal(f.bucket))
	// InfluxDB 2 excludes the stop, 1.8 includes it. So the stop is a time at which nothing is measured.
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

// literal returns a string literal of any s. Characters with a meaning in any version are written as the digits of
// their bytes.
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

// atPlaces returns a filter for the series at any of these places.
func atPlaces(places []place) string {
	terms := make([]string, len(places))
	for i, p := range places {
		terms[i] = allOf(column("_measurement", []string{p.measurement}), column("_field", []string{p.field}))
	}
	return anyOf(terms)
}

// ofApps returns a filter for all possible app metrics, or for those of one application.
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

// withDimensions returns filters for series with these tags.
func withDimensions(d metrics.Dimensions) []string {
	var terms []string
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if value := d[name]; value != "" {
			terms = append(terms, column(key(name), spellings(escaped(value), value)))
		}
	}
	return terms
}

// column returns a filter for rows in which a column has one of these values.
func column(name string, values []string) string {
	terms := make([]string, len(values))
	for i, value := range values {
		terms[i] = fmt.Sprintf("r[%s] == %s", literal(name), literal(value))
	}
	return anyOf(terms)
}

func allOf(terms ...string) string { return "(" + strings.Join(terms, " and ") + ")" }

func anyOf(terms []string) string { return "(" + strings.Join(terms, " or ") + ")" }

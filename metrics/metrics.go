package metrics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Type says who writes a metric.
type Type string

const (
	System         Type = "system_metrics"  // the autoscaler, each tick
	App            Type = "app_metrics"     // applications
	Metadata       Type = "metadata"        // the autoscaler: capacity and totals, for history
	InstanceCounts Type = "instance_counts" // the harmonizer
)

// Types returns all types.
func Types() []Type { return []Type{System, App, Metadata, InstanceCounts} }

// Dimensions tell series of one name apart: cluster, pool, app, ...
type Dimensions map[string]string

// Key returns the name and the dimensions as one string in the order of the
// dimensions' names, "name|app=web,zone=a"; without dimensions, the bare name.
func Key(name string, d Dimensions) string {
	if len(d) == 0 {
		return name
	}
	var b strings.Builder
	b.WriteString(name)
	sep := byte('|')
	for _, k := range slices.Sorted(maps.Keys(d)) {
		b.WriteByte(sep)
		b.WriteString(k)
		b.WriteByte('=')
		b.WriteString(d[k])
		sep = ','
	}
	return b.String()
}

// Series is a named line of points from oldest to newest. Equal times are
// allowed and stand in order of value. Times and Values have the same length;
// readers must not write to them.
type Series struct {
	Name       string
	Dimensions Dimensions
	Times      []int64   // unix seconds
	Values     []float64 // finite
	// Lineage, if not 0, is the same in two windows of one series when the newer
	// one was made from the older by adding points behind the last and taking
	// points away at the front, and in no others. 0 promises nothing.
	Lineage uint64
}

// Newest returns the time of the last point, and whether there is one.
func (s Series) Newest() (time.Time, bool) {
	if len(s.Times) == 0 {
		return time.Time{}, false
	}
	return time.Unix(s.Times[len(s.Times)-1], 0), true
}

// Sample is one value of one series, to be written.
type Sample struct {
	Type       Type
	Name       string // of an application metric: "APP,NAME"
	Dimensions Dimensions
	Time       time.Time // kept to the millisecond
	Value      float64   // finite
}

// Store keeps samples and answers windows. It may be used concurrently.
type Store interface {
	// Write keeps the samples. ErrNotFinite, ErrMalformed and ErrFuture refuse a
	// sample, and nothing of that call is kept; a *SampleError says which one. A
	// sample older than the store can still take is dropped without an error: who
	// writes many has no use for one.
	Write(ctx context.Context, samples []Sample) error
	// Window returns the series that match, in order of their Identity. No match
	// is an empty result and no error; an error means that the window is unknown.
	Window(ctx context.Context, q Query) ([]Series, error)
}

// AppName returns the stored name of an application's metric. The app is one that
// CheckApp has nothing against.
func AppName(app, name string) string { return app + "," + name }

// MaxApp bounds the name of an application, in bytes.
const MaxApp = 256

// AppOf returns the application of a stored name, as AppName made it; empty if it has none.
func AppOf(name string) string {
	app, _, ok := strings.Cut(name, ",")
	if !ok {
		return ""
	}
	return app
}

// CheckApp returns an ErrMalformed unless metrics can be of an application of that
// name. It has no comma: the name ends at the first one of a stored name, so that
// the metrics of another application would be written.
func CheckApp(app string) error {
	if app == "" || len(app) > MaxApp || strings.Contains(app, ",") {
		return fmt.Errorf("%w: app %.300q: want a name of 1 to %d bytes without a comma", ErrMalformed, app, MaxApp)
	}
	if strings.ContainsFunc(app, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return fmt.Errorf("%w: app %.300q: want a name without control characters", ErrMalformed, app)
	}
	return nil
}

package metrics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Type is the kind of a metric's writer.
type Type string

const (
	System         Type = "system_metrics"  // the autoscaler, each tick
	App            Type = "app_metrics"     // applications
	Metadata       Type = "metadata"        // the autoscaler: capacity and totals, for history
	InstanceCounts Type = "instance_counts" // the harmonizer
)

// Types returns all types.
func Types() []Type { return []Type{System, App, Metadata, InstanceCounts} }

// Dimensions distinguish series of one name: cluster, pool, app, ...
type Dimensions map[string]string

// Key returns the name and the dimensions as one string, in order of the dimensions' names: "name|app=web,zone=a".
// Without dimensions it is the name.
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

// Series is a named list of points in order of time. Points with equal times are in order of value. Times and Values
// have the same length; readers must not write to them.
type Series struct {
	Name       string
	Dimensions Dimensions
	Times      []int64   // unix seconds
	Values     []float64 // finite
	// Counts are the numbers of values in the slots of a Query with a Resolution, whole and at least 1. They have the length
	// of Values; nil: without a Resolution.
	Counts []float64
	// Lineage, if not 0, connects windows of one series. Two windows have the same Lineage only if the newer was made
	// from the older: points added at the end, points removed at the front. 0 promises nothing.
	Lineage uint64
}

// Newest returns the time of the last point; false without points.
func (s Series) Newest() (time.Time, bool) {
	if len(s.Times) == 0 {
		return time.Time{}, false
	}
	return time.Unix(s.Times[len(s.Times)-1], 0), true
}

// Sample is one value to write.
type Sample struct {
	Type       Type
	Name       string // of an application metric: "APP,NAME"
	Dimensions Dimensions
	Time       time.Time // stored to the millisecond
	Value      float64   // finite
}

// Store stores samples and returns windows. It is safe for concurrent use.
type Store interface {
	// Write stores the samples. If a sample is refused with ErrNotFinite, ErrMalformed or ErrFuture, nothing of the
	// call is stored; a *SampleError has the sample. A sample that is too old for the store is dropped without an
	// error, because writers of many samples need none.
	Write(ctx context.Context, samples []Sample) error
	// Window returns the matching series in order of their Identity. Without a match the result is empty and not an
	// error. An error means that the window is unknown.
	Window(ctx context.Context, q Query) ([]Series, error)
}

// AppName returns the stored name of an application's metric. The app must pass CheckApp.
func AppName(app, name string) string { return app + "," + name }

// AppOf reverses AppName and returns the application; empty without one.
func AppOf(name string) string {
	app, _, ok := strings.Cut(name, ",")
	if !ok {
		return ""
	}
	return app
}

// defaultApp is the app of the default signal.
const defaultApp = "__default__"

// CheckApp returns ErrMalformed unless an application of that name can exist. So the name has no comma: the first
// comma of a stored name ends the application.
func CheckApp(app string) error {
	if !names.Valid(app) && app != defaultApp {
		return fmt.Errorf("%w: app %.100q: %s", ErrMalformed, app, names.Rule)
	}
	return nil
}

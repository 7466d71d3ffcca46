package influx

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// FutureWindow is how far ahead of the clock a sample may be.
const FutureWindow = 10 * time.Minute

// Bounds of one sample, in bytes and in number.
const (
	maxName       = 1024
	maxDimensions = 32
	maxDimName    = 128
	maxDimValue   = 1024
	maxLine       = 60 << 10 // as it is written: InfluxDB has a limit of 64 KiB for a series
)

// The years 1900 and 2262, in unix seconds: what InfluxDB can count in nanoseconds,
// rounded to what is measured.
const (
	minSecond = -2_208_988_800
	maxSecond = 9_214_646_400
)

// checkSample returns why a sample may not be written at now: ErrNotFinite,
// ErrMalformed or ErrFuture.
func checkSample(now time.Time, s metrics.Sample) error {
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		return fmt.Errorf("%w: %v", metrics.ErrNotFinite, s.Value)
	}
	if err := checkIdentity(s.Type, s.Name, s.Dimensions); err != nil {
		return err
	}
	if s.Time.Unix() < minSecond {
		return fmt.Errorf("%w: time %s", metrics.ErrMalformed, shown(s.Time))
	}
	if s.Time.After(now.Add(FutureWindow)) {
		return fmt.Errorf("%w: %s, at %s", metrics.ErrFuture, shown(s.Time), shown(now))
	}
	return nil
}

// shown is a time as people are told it.
func shown(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// checkIdentity bounds what names a series.
func checkIdentity(t metrics.Type, name string, d metrics.Dimensions) error {
	if !slices.Contains(metrics.Types(), t) {
		return fmt.Errorf("%w: type %.100q", metrics.ErrMalformed, t)
	}
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return fmt.Errorf("%w: name of %d bytes: want 1 to %d bytes of UTF-8", metrics.ErrMalformed, len(name), maxName)
	}
	return checkDimensions(d)
}

func checkDimensions(d metrics.Dimensions) error {
	if len(d) > maxDimensions {
		return fmt.Errorf("%w: %d dimensions, at most %d", metrics.ErrMalformed, len(d), maxDimensions)
	}
	for k, v := range d {
		if k == "" || len(k) > maxDimName || !utf8.ValidString(k) {
			return fmt.Errorf("%w: dimension %.100q: want a name of 1 to %d bytes of UTF-8", metrics.ErrMalformed, k, maxDimName)
		}
		if len(v) > maxDimValue || !utf8.ValidString(v) {
			return fmt.Errorf("%w: dimension %q has a value of %d bytes: want at most %d bytes of UTF-8",
				metrics.ErrMalformed, k, len(v), maxDimValue)
		}
	}
	return nil
}

// checkQuery bounds what a query asks for, and returns its pattern if it has one.
func checkQuery(q metrics.Query) (pattern *regexp.Regexp, err error) {
	if !q.Regex {
		return nil, checkIdentity(q.Type, q.Name, q.Dimensions)
	}
	if pattern, err = q.Pattern(); err != nil {
		return nil, err
	}
	if len(q.Prefix) > maxName || !utf8.ValidString(q.Prefix) {
		return nil, fmt.Errorf("%w: prefix of %d bytes: want at most %d bytes of UTF-8", metrics.ErrMalformed, len(q.Prefix), maxName)
	}
	return pattern, checkDimensions(q.Dimensions)
}

// second returns the second that a time is in, within the bounds.
func second(t time.Time) int64 { return min(max(t.Unix(), minSecond), maxSecond) }

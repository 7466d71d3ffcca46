package embedded

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// ErrMalformed: a sample or query that no store could take: without a name, of
// an unknown type, not UTF-8, or longer than the bounds of this package. Nothing
// of the call is kept.
var ErrMalformed = errors.New("malformed")

// ErrFuture: a sample too far ahead of the clock. Nothing of the call is kept.
var ErrFuture = errors.New("time is in the future")

// Bounds of one sample, in bytes and in number.
const (
	maxName       = 1024
	maxDimensions = 32
	maxDimName    = 128
	maxDimValue   = 1024
)

// The years 1900 and 9999, in unix seconds: beyond them nothing is measured, and
// between them no arithmetic overflows.
const (
	minSecond = -2_208_988_800
	maxSecond = 253_370_764_800
)

// checkSamples returns an error that names the first sample that may not be
// written at now.
func checkSamples(now time.Time, samples []metrics.Sample) error {
	for i, s := range samples {
		if err := checkSample(now, s); err != nil {
			return fmt.Errorf("sample %d of %d, %.200q: %w", i+1, len(samples), s.Name, err)
		}
	}
	return nil
}

func checkSample(now time.Time, s metrics.Sample) error {
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		return fmt.Errorf("%w: %v", metrics.ErrNotFinite, s.Value)
	}
	if err := checkIdentity(s.Type, s.Name, s.Dimensions); err != nil {
		return err
	}
	if s.Time.Unix() < minSecond {
		return fmt.Errorf("%w: time %v", ErrMalformed, s.Time)
	}
	if s.Time.After(now.Add(FutureWindow)) {
		return fmt.Errorf("%w: %v, at %v", ErrFuture, s.Time, now)
	}
	return nil
}

// checkIdentity bounds what names a series.
func checkIdentity(t metrics.Type, name string, d metrics.Dimensions) error {
	if !slices.Contains(metrics.Types(), t) {
		return fmt.Errorf("%w: type %.100q", ErrMalformed, t)
	}
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return fmt.Errorf("%w: name of %d bytes: want 1 to %d bytes of UTF-8", ErrMalformed, len(name), maxName)
	}
	if len(d) > maxDimensions {
		return fmt.Errorf("%w: %d dimensions, at most %d", ErrMalformed, len(d), maxDimensions)
	}
	for k, v := range d {
		if k == "" || len(k) > maxDimName || !utf8.ValidString(k) {
			return fmt.Errorf("%w: dimension %.100q: want a name of 1 to %d bytes of UTF-8", ErrMalformed, k, maxDimName)
		}
		if len(v) > maxDimValue || !utf8.ValidString(v) {
			return fmt.Errorf("%w: dimension %q has a value of %d bytes: want at most %d bytes of UTF-8",
				ErrMalformed, k, len(v), maxDimValue)
		}
	}
	return nil
}

// milliseconds returns a time as the store keeps it, at most the bounds.
func milliseconds(t time.Time) int64 {
	if t.Unix() < minSecond {
		return minSecond * 1000
	}
	if t.Unix() > maxSecond {
		return maxSecond * 1000
	}
	return t.UnixMilli()
}

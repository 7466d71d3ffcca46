package metrics

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"
)

// Bounds of a sample, in bytes and in number.
const (
	MaxName       = 1024
	MaxDimensions = 32
	MaxDimName    = 128
	MaxDimValue   = 1024
)

const (
	// futureWindow is how far ahead of the clock a sample's time may be.
	futureWindow = 10 * time.Minute
	// MinSecond is the year 1900 in unix seconds, the earliest valid time.
	MinSecond = -2_208_988_800
)

// CheckSample checks a sample at time now. It returns ErrNotFinite, ErrMalformed or ErrFuture.
func CheckSample(now time.Time, s Sample) error {
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		return fmt.Errorf("%w: %v", ErrNotFinite, s.Value)
	}
	if err := checkIdentity(s.Type, s.Name, s.Dimensions); err != nil {
		return err
	}
	shown := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	if s.Time.Unix() < MinSecond {
		return fmt.Errorf("%w: time %s", ErrMalformed, shown(s.Time))
	}
	if s.Time.After(now.Add(futureWindow)) {
		return fmt.Errorf("%w: %s, at %s", ErrFuture, shown(s.Time), shown(now))
	}
	return nil
}

// checkIdentity checks type, name and dimensions of a series.
func checkIdentity(t Type, name string, d Dimensions) error {
	if !slices.Contains(Types(), t) {
		return fmt.Errorf("%w: type %.100q", ErrMalformed, t)
	}
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) {
		return fmt.Errorf("%w: name of %d bytes: want 1 to %d bytes of UTF-8", ErrMalformed, len(name), MaxName)
	}
	return checkDimensions(d)
}

func checkDimensions(d Dimensions) error {
	if len(d) > MaxDimensions {
		return fmt.Errorf("%w: %d dimensions, at most %d", ErrMalformed, len(d), MaxDimensions)
	}
	for k, v := range d {
		if k == "" || len(k) > MaxDimName || !utf8.ValidString(k) {
			return fmt.Errorf("%w: dimension %.100q: want a name of 1 to %d bytes of UTF-8", ErrMalformed, k, MaxDimName)
		}
		if len(v) > MaxDimValue || !utf8.ValidString(v) {
			return fmt.Errorf("%w: dimension %q has a value of %d bytes: want at most %d bytes of UTF-8", ErrMalformed, k, len(v), MaxDimValue)
		}
	}
	return nil
}

// Check returns the compiled pattern of a valid query, nil without a pattern. It returns ErrMalformed or ErrPattern
// for an invalid query.
func (q Query) Check() (*regexp.Regexp, error) {
	if !ValidResolution(q.Resolution) {
		return nil, fmt.Errorf("%w: resolution %v: want whole seconds that divide 24h", ErrMalformed, q.Resolution)
	}
	if !q.Regex {
		return nil, checkIdentity(q.Type, q.Name, q.Dimensions)
	}
	pattern, err := q.Pattern()
	if err != nil {
		return nil, err
	}
	if len(q.Prefix) > MaxName || !utf8.ValidString(q.Prefix) {
		return nil, fmt.Errorf("%w: prefix of %d bytes: want at most %d bytes of UTF-8", ErrMalformed, len(q.Prefix), MaxName)
	}
	return pattern, checkDimensions(q.Dimensions)
}

package embedded

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// The years 1900 and 9999, in unix seconds: beyond them nothing is measured, and
// between them no arithmetic overflows.
const (
	minSecond = -2_208_988_800
	maxSecond = 253_370_764_800
)

// checkSamples returns a *metrics.SampleError for the first sample that may not
// be written at now.
func checkSamples(now time.Time, samples []metrics.Sample) error {
	for i, s := range samples {
		if err := checkSample(now, s); err != nil {
			return &metrics.SampleError{Index: i, Name: s.Name, Err: err}
		}
	}
	return nil
}

func checkSample(now time.Time, s metrics.Sample) error {
	if err := metrics.CheckSample(s); err != nil {
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

// second returns the second that a time is in, within the bounds.
func second(t time.Time) int64 { return min(max(t.Unix(), minSecond), maxSecond) }

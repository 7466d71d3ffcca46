package influx

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// FutureWindow is how far ahead of the clock a sample may be.
const FutureWindow = 10 * time.Minute

// maxLine bounds a sample as it is written, in bytes: InfluxDB has a limit of 64 KiB
// for a series.
const maxLine = 60 << 10

// The years 1900 and 2262, in unix seconds: what InfluxDB can count in nanoseconds,
// rounded to what is measured.
const (
	minSecond = -2_208_988_800
	maxSecond = 9_214_646_400
)

// checkSample returns why a sample may not be written at now: ErrNotFinite,
// ErrMalformed or ErrFuture.
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

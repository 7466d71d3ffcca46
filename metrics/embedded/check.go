package embedded

import (
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// The years 1900 and 9999 in unix seconds bound valid times. Between them no arithmetic overflows.
const (
	minSecond = metrics.MinSecond
	maxSecond = 253_370_764_800
)

// CheckSamples returns a *metrics.SampleError for the first invalid sample at time now.
func CheckSamples(now time.Time, samples []metrics.Sample) error {
	for i, s := range samples {
		if err := metrics.CheckSample(now, s); err != nil {
			return &metrics.SampleError{Index: i, Name: s.Name, Err: err}
		}
	}
	return nil
}

// Second returns the second of a time, within the bounds.
func Second(t time.Time) int64 { return min(max(t.Unix(), minSecond), maxSecond) }

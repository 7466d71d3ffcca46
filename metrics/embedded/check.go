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

// Second returns a second within the bounds.
func Second(s int64) int64 { return min(max(s, minSecond), maxSecond) }

package seconds

import (
	"testing"
	"time"
)

// A short duration is one that package time reads as the same.
func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", 5 * time.Minute: "5m", 24 * time.Hour: "24h", 10 * time.Second: "10s",
		time.Hour + time.Second: "1h0m1s", time.Hour + 2*time.Minute: "1h2m", 1500 * time.Millisecond: "1.5s", -time.Minute: "-1m",
		20 * time.Minute: "20m", 10 * time.Hour: "10h",
	} {
		got := Short(d)
		if got != want {
			t.Errorf("Short(%v) = %q, want %q", d, got, want)
		}
		if back, err := time.ParseDuration(got); err != nil || back != d {
			t.Errorf("Short(%v) = %q, which reads as %v, %v", d, got, back, err)
		}
	}
}

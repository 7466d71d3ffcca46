package known

import (
	"testing"
	"time"
)

func TestClockNeverGoesBack(t *testing.T) {
	c := clock{connectedAt: -maxInstant}
	c.set(start)
	if at := c.set(start.Add(time.Second)); at != instant(time.Second) {
		t.Errorf("instant %d, want %d", at, time.Second)
	}
	if at := c.set(start); at != instant(time.Second) {
		t.Errorf("after an earlier time: instant %d, want %d", at, time.Second)
	}
	if got := c.now(); !got.Equal(start.Add(time.Second)) {
		t.Errorf("now = %v", got)
	}
}

func TestSilenceCountsFromConnected(t *testing.T) {
	for _, tt := range []struct {
		name              string
		last, connectedAt time.Duration
		silence           time.Duration
		until             time.Duration
	}{
		{"hearing since before", 4 * time.Second, 0, 6 * time.Second, 9*time.Second + 1},
		{"hearing anew since", 4 * time.Second, 7 * time.Second, 3 * time.Second, 12*time.Second + 1},
		{"just now", 10 * time.Second, 0, 0, 15*time.Second + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := clock{}
			c.set(start)
			c.set(start.Add(10 * time.Second))
			c.connectedAt = instant(tt.connectedAt)
			if got := c.silence(instant(tt.last)); got != tt.silence {
				t.Errorf("silence = %v, want %v", got, tt.silence)
			}
			if got := c.until(instant(tt.last), 5*time.Second); !got.Equal(start.Add(tt.until)) {
				t.Errorf("until = %v after the start, want %v", got.Sub(start), tt.until)
			}
		})
	}
}

package condition

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		39 * time.Second: "39 s", 21 * time.Minute: "21 min", 90 * time.Minute: "90 min", 5 * time.Hour: "5 h", 72 * time.Hour: "3 d", -time.Second: "0 s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %s, want %s", d, got, want)
		}
	}
}

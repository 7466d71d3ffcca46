package cloudfoundry

import (
	"testing"
	"time"
)

func TestDescriptorUptime(t *testing.T) {
	c := Component{began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	d := c.Descriptor(c.began.Add(50*time.Hour + 3*time.Minute + 4*time.Second))
	if d.Uptime != "2d:2h:3m:4s" || d.Start != "2026-01-02 03:04:05 +0000" {
		t.Errorf("start %q, up %q", d.Start, d.Uptime)
	}
}

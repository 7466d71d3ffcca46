package seconds

import (
	"strings"
	"time"
)

// Short formats a duration for people, without parts that are zero: 1m30s, 5m, 24h. Package time reads it.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

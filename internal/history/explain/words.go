package explain

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
)

// Ago returns the time since t in its largest suitable unit.
func Ago(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return seconds.Short(d.Truncate(time.Second))
	case d < 48*time.Hour:
		return seconds.Short(d.Truncate(time.Minute))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Note formats the author, the reason and the end of an order.
func Note(n api.Note) string {
	text := "by " + n.By
	if n.Why != "" {
		text += ": " + n.Why
	}
	if !n.Until.IsZero() {
		text += "; ends " + n.Until.Local().Format(time.DateTime)
	}
	return text
}

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

// Time formats a time for people: RFC 3339 by the zone of this host, to the second. "--at" and "--since" read it.
func Time(t time.Time) string { return t.Local().Format(time.RFC3339) }

// When formats a time and its distance from now: "2026-11-29T07:03:18Z, 3m10s ago", or "..., in 24s".
func When(now, t time.Time) string {
	if t.After(now) {
		return Time(t) + ", in " + Ago(t, now)
	}
	return Time(t) + ", " + Ago(now, t) + " ago"
}

// Note formats the author, the reason and the end of an order.
func Note(n api.Note) string {
	text := "by " + n.By
	if n.Why != "" {
		text += ": " + n.Why
	}
	if !n.Until.IsZero() {
		text += "; ends " + Time(n.Until)
	}
	return text
}

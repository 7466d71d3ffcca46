package history

import (
	"fmt"
	"time"
)

// dated are the forms of a time without a zone, which is local.
var dated = [...]string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly}

// ParseTime parses a point of the past: RFC 3339, a local date with or without a time, or the last time at which the
// clock showed 15:04 or 15:04:05.
func ParseTime(text string, now time.Time) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	for _, layout := range dated {
		if err != nil {
			at, err = time.ParseInLocation(layout, text, now.Location())
		}
	}
	for _, layout := range [...]string{"15:04:05", "15:04"} {
		if err == nil {
			break
		}
		if at, err = time.ParseInLocation(layout, text, now.Location()); err == nil {
			year, month, day := now.Date()
			at = time.Date(year, month, day, at.Hour(), at.Minute(), at.Second(), 0, now.Location())
			if at.After(now) {
				at = at.AddDate(0, 0, -1)
			}
		}
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("time %.80q: want a time such as 03:10, 2026-01-02T03:10:00 or 2026-01-02T03:10:00Z", text)
	}
	return at, nil
}

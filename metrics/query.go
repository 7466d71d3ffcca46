package metrics

import (
	"fmt"
	"regexp"
	"time"
)

// Query asks for the windows of all series of one type and name whose
// dimensions include those given.
type Query struct {
	Type       Type
	Name       string
	Dimensions Dimensions
	// Both ends are inclusive and count in whole seconds, as the times of a Series
	// do: a point belongs to the window if the second that it is in is neither
	// before that of From nor after that of To.
	From, To time.Time
	// Regex: Name is a regular expression (RE2, at most MaxPattern bytes) that is
	// looked for anywhere in the Key of a stored series, "APP,NAME|DIMENSIONS".
	// For application metrics only.
	Regex bool
	// Prefix, with Regex, is what the stored name of a series must begin with
	// besides: AppName(app, "") keeps the pattern to the metrics of one application.
	Prefix string
}

const (
	// MaxPattern bounds a Query's regular expression, in bytes.
	MaxPattern = 1024
	// MaxMatches bounds the series that a regular expression may match: more of
	// them are ErrTooMany, as a part of them would look like the whole.
	MaxMatches = 10_000
)

// Pattern returns what a Query with Regex looks for. Any error is ErrPattern.
func (q Query) Pattern() (*regexp.Regexp, error) {
	if q.Type != App {
		return nil, fmt.Errorf("%w: it is for %s only, not for %.100q", ErrPattern, App, q.Type)
	}
	if q.Name == "" || len(q.Name) > MaxPattern {
		return nil, fmt.Errorf("%w: it has %d bytes, want 1 to %d", ErrPattern, len(q.Name), MaxPattern)
	}
	pattern, err := regexp.Compile(q.Name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPattern, err)
	}
	return pattern, nil
}

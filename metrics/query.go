package metrics

import (
	"fmt"
	"regexp"
	"time"
)

// Query selects the windows of all series of one type and name whose dimensions include the given ones.
type Query struct {
	Type       Type
	Name       string
	Dimensions Dimensions
	// From and To are inclusive and count in whole seconds. A point belongs to the window if its second is not before
	// From's second and not after To's second.
	From, To time.Time
	// Regex: Name is a regular expression (RE2, at most MaxPattern bytes) that matches anywhere in the Key of a
	// stored series, "APP,NAME|DIMENSIONS". It is only for application metrics.
	Regex bool
	// Prefix, with Regex, is a required prefix of the stored name. AppName(app, "") restricts the pattern to one
	// application.
	Prefix string
}

const (
	// MaxPattern bounds a Query's regular expression, in bytes.
	MaxPattern = 1024
	// MaxMatches bounds the series that a regular expression may match. More matches are ErrTooMany, because a
	// partial result would appear complete.
	MaxMatches = 10_000
)

// Pattern returns the compiled pattern of a Query with Regex. Any error is ErrPattern.
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

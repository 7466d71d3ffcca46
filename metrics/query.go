package metrics

import (
	"fmt"
	"regexp"
	"time"
)

// Query selects the windows of all series of one type and name whose dimensions include the given ones. With a Source it
// selects the series that this source answers to Text.
type Query struct {
	Type       Type
	Name       string
	Dimensions Dimensions
	// From and To are inclusive and count in whole seconds. A point belongs to the window if its second is not before
	// From's second and not after To's second.
	From, To time.Time
	// Resolution, if not 0, divides time into slots of that length, from midnight UTC on. Only slots that begin at From or
	// later and have ended at To belong to the window. A slot with points is one point of the series: its time is the first
	// second of the slot, its value the mean of the slot's values. It is a whole number of seconds that divides 24 h.
	Resolution time.Duration
	// Regex: Name is a regular expression (RE2, at most MaxPattern bytes) that matches anywhere in the Key of a
	// stored series, "APP,NAME|DIMENSIONS". It is only for application metrics.
	Regex bool
	// Prefix, with Regex, is a required prefix of the stored name. AppName(app, "") restricts the pattern to one
	// application.
	Prefix string
	// Source is the name of a source of windows in the service file; empty: the store of the pool. With a Source, Type, Name
	// and Regex are empty, and Dimensions are the values of the variables in Text, by name.
	Source string
	// Text is the query in the language of the source.
	Text string
	// Step is the distance of the points, a positive number of whole seconds. Times are multiples of it.
	Step time.Duration
	// Lag is how long after its time a point is complete. Younger points are not requested.
	Lag time.Duration
	// Whole: a point may depend on From and To, so that a window cannot be put together from two answers.
	Whole bool
}

const (
	// MaxPattern bounds a Query's regular expression, in bytes.
	MaxPattern = 1024
	// MaxMatches bounds the series that a regular expression may match. More matches are ErrTooMany, because a
	// partial result would appear complete.
	MaxMatches = 10_000
)

// Seconds returns the first and the last second of the window, in unix seconds. With a Resolution they are those of its
// slots.
func (q Query) Seconds() (from, to int64) {
	if q.Resolution == 0 {
		return q.From.Unix(), q.To.Unix()
	}
	slots := q.Slots()
	return slots.Begin(q.From.Add(q.Resolution - 1).Unix()), slots.Begin(q.To.Unix()) - 1
}

// Slots is the length of the slots of a Resolution in seconds; 0: each point is alone.
type Slots int64

// Slots returns the length of the slots of q.
func (q Query) Slots() Slots { return Slots(q.Resolution / time.Second) }

// Begin returns the first second of the slot of a second; without slots that second.
func (l Slots) Begin(second int64) int64 {
	if l == 0 {
		return second
	}
	length := int64(l)
	return second - (second%length+length)%length
}

// Add adds a value of a second to a series. The second is not before those of earlier values. With slots the
// value counts in the mean and in the count of its slot.
func (l Slots) Add(s *Series, second int64, value float64) {
	at, n := l.Begin(second), len(s.Times)
	if l == 0 || n == 0 || s.Times[n-1] != at {
		s.Times, s.Values = append(s.Times, at), append(s.Values, value)
		if l != 0 {
			s.Counts = append(s.Counts, 1)
		}
		return
	}
	s.Counts[n-1]++
	count, mean := s.Counts[n-1], s.Values[n-1]
	s.Values[n-1] = mean + (value/count - mean/count) // divided first: the difference may overflow
}

// Fold returns the series of q with these points, which are in order of time; without a Resolution that series.
func (q Query) Fold(s Series) Series {
	if q.Resolution == 0 {
		return s
	}
	folded, slots := Series{Name: s.Name, Dimensions: s.Dimensions}, q.Slots()
	for i, second := range s.Times {
		slots.Add(&folded, second, s.Values[i])
	}
	return folded
}

// ValidResolution reports whether a query can have that Resolution.
func ValidResolution(d time.Duration) bool {
	return d == 0 || d > 0 && d%time.Second == 0 && 24*time.Hour%d == 0
}

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

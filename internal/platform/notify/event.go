package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// Event is one event, as a target receives it.
type Event struct {
	ID       string          `json:"id"` // equal for equal events
	At       time.Time       `json:"at"`
	Cluster  string          `json:"cluster"`
	Pool     string          `json:"pool,omitempty"` // empty: an event of all pools
	Kind     string          `json:"kind"`
	Name     string          `json:"event"`
	Severity api.Severity    `json:"severity"`
	Text     string          `json:"text"` // one line for people
	Data     json.RawMessage `json:"data,omitempty"`
}

// maxEvent bounds the JSON of an event in bytes. A longer one loses its data, and then the end of its text.
const maxEvent = 64 << 10

// Encode returns the event with its id as bounded JSON.
func (e Event) Encode() (id string, data []byte, err error) {
	e.ID = ""
	for range 3 {
		data, err := json.Marshal(e)
		if err != nil {
			return "", nil, fmt.Errorf("encode event %s: %w", e.Name, err)
		}
		if len(data) <= maxEvent {
			sum := sha256.Sum256(data)
			e.ID = hex.EncodeToString(sum[:16])
			data, err = json.Marshal(e)
			return e.ID, data, err
		}
		if e.Data == nil {
			e.Text = e.Text[:min(len(e.Text), maxEvent/16)]
		}
		e.Data = nil
	}
	return "", nil, fmt.Errorf("encode event %.80q: its names are longer than %d bytes", e.Name, maxEvent)
}

// Filter selects events. An empty field selects all.
type Filter struct {
	Kinds  []string
	Events []string // names or patterns, such as "repair.*"
	Pools  []string // an event of all pools passes, too
	Least  api.Severity
}

// Passes reports whether the target receives the event.
func (f Filter) Passes(e Event) bool {
	named := func(pattern string) bool {
		ok, err := path.Match(pattern, e.Name)
		return ok && err == nil
	}
	return (len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind)) &&
		(len(f.Events) == 0 || slices.ContainsFunc(f.Events, named)) &&
		(len(f.Pools) == 0 || e.Pool == "" || slices.Contains(f.Pools, e.Pool)) &&
		e.Severity.Reaches(f.Least)
}

// Check returns an error if a pattern of the filter is invalid, or its severity is unknown.
func (f Filter) Check() error {
	for _, pattern := range f.Events {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%.80q: want a name such as breaker.opened, or a pattern such as repair.*", pattern)
		}
	}
	if f.Least != "" && !slices.Contains(api.Severities(), f.Least) {
		return fmt.Errorf("%.80q: want one of %v", f.Least, api.Severities())
	}
	return nil
}

package apps

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Summary is one app in short.
type Summary struct {
	Name     string           `json:"name"`
	Pool     string           `json:"pool,omitempty"`
	Expected bool             `json:"expected"`          // it has a row
	Problem  string           `json:"problem,omitempty"` // why it is neither started nor stopped
	Version  string           `json:"version,omitempty"` // the live one
	Updated  time.Time        `json:"updated,omitzero"`
	Count    message.AppCount `json:"count"`
}

// Explanation is all that is known of one app.
type Explanation struct {
	Summary
	Indices []IndexStatus `json:"indices"` // in order; the desired ones, and those with a copy
}

// IndexStatus is one index of an app.
type IndexStatus struct {
	Index     int        `json:"index"`
	Desired   bool       `json:"desired"`
	Instances []Instance `json:"instances,omitempty"` // in order of their ids
	Missing   time.Time  `json:"missing_since,omitzero"`
	NotBefore time.Time  `json:"not_before,omitzero"` // if missing: the next start is not nudged earlier
	Crashes   int        `json:"crashes,omitempty"`   // that followed one another
	Last      *Finding   `json:"last,omitempty"`      // the newest, with its reason
	LastAt    time.Time  `json:"last_at,omitzero"`
}

// Instance is one copy of an app.
type Instance struct {
	ID      string        `json:"instance"`
	Node    string        `json:"node"`
	Version string        `json:"version"`
	State   message.State `json:"state"`
	Since   float64       `json:"since"`             // unix seconds, as the node says
	Absent  time.Time     `json:"absent,omitzero"`   // since then its node lists it no more
	Stopped bool          `json:"stopped,omitempty"` // its stop was nudged
}

// Apps returns every app that is desired or seen, in order of name.
func (m *Machine) Apps() []Summary {
	out := make([]Summary, 0, len(m.apps))
	for _, a := range m.apps {
		out = append(out, a.summary())
	}
	slices.SortFunc(out, func(a, b Summary) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Explain returns what is known of an app, and whether anything is.
func (m *Machine) Explain(name string) (Explanation, bool) {
	a := m.apps[name]
	if a == nil {
		return Explanation{}, false
	}
	e := Explanation{Summary: a.summary(), Indices: make([]IndexStatus, 0, len(a.slots))}
	for _, index := range slices.Sorted(maps.Keys(a.slots)) {
		e.Indices = append(e.Indices, a.slots[index].status())
	}
	return e, true
}

func (a *app) summary() Summary {
	s := Summary{
		Name:     a.name,
		Expected: a.row == rowPresent || a.row == rowUnreadable,
		Version:  a.want.Version,
		Updated:  a.want.Updated,
		Count:    a.counts(),
	}
	if a.pool != nil {
		s.Pool = a.want.Pool
	}
	if a.row == rowUnreadable {
		s.Problem = "its row cannot be read"
	}
	return s
}

func (s *slot) status() IndexStatus {
	st := IndexStatus{
		Index:   s.index,
		Desired: s.app.desires(s.index),
		Missing: s.missing,
		Crashes: s.crashes,
		LastAt:  s.lastAt,
	}
	if !s.missing.IsZero() {
		st.NotBefore = later(s.pending, s.restart)
	}
	if s.last.Kind != "" {
		st.Last = new(s.last)
	}
	for _, in := range s.copies {
		st.Instances = append(st.Instances, Instance{
			ID: in.id, Node: in.node.id, Version: in.version, State: in.state,
			Since: in.since, Absent: in.absent, Stopped: !in.stopped.IsZero(),
		})
	}
	slices.SortFunc(st.Instances, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	return st
}

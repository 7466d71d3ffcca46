package apps

import (
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// perTable bounds the crash table of an app: the newest stay.
const perTable = 100

// Crash is a line of an app's crash table.
type Crash struct {
	Instance    string         `json:"instance"`
	Index       int            `json:"index"`
	Version     string         `json:"version"`
	Node        string         `json:"node,omitempty"`
	At          time.Time      `json:"at"`    // when it was heard
	Since       float64        `json:"since"` // unix seconds, as the node said; 0: it did not
	Reason      message.Reason `json:"reason"`
	Status      *int           `json:"exit_status,omitempty"` // nil: not told
	Description string         `json:"exit_description,omitempty"`
}

// crash is the same, as the machine keeps it.
type crash struct {
	Crash
	at instant
}

// carcass enters a copy into the crash table whose node says that it crashed.
func (m *Machine) carcass(a *app, c known.Copy) {
	if c.State() != message.Crashed {
		return
	}
	m.enter(a, Crash{Instance: c.ID(), Index: c.Index(), Version: c.Version(), Node: c.Node(), Since: c.Since(), Reason: message.ReasonCrashed})
}

// exitTable enters a crash that a node told. Of an app that we know nothing else
// of, it does not.
func (m *Machine) exitTable(e message.Exited, why Why) {
	a := m.apps.lookup(e.App)
	if a == nil || why != WhyCrashed {
		return
	}
	node := ""
	if c, ok := m.known.Find(e.Instance); ok {
		node = c.Node()
	}
	m.enter(a, Crash{Instance: e.Instance, Index: e.Index, Version: e.Version, Node: node, Since: float64(e.CrashedAt),
		Reason: e.Reason, Status: e.Status, Description: e.Description})
}

// exitOf is how a copy ended, in the words of its node; empty if that was not told.
func (a *app) exitOf(id string) string {
	for _, c := range a.crashes {
		if c.Instance == id {
			return c.Description
		}
	}
	return ""
}

// enter adds a line, or completes the one of the same copy.
func (m *Machine) enter(a *app, c Crash) {
	i := slices.IndexFunc(a.crashes, func(o crash) bool { return o.Instance == c.Instance })
	if i >= 0 {
		o := &a.crashes[i]
		if c.Since != 0 {
			o.Since = c.Since
		}
		if c.Status != nil || c.Description != "" {
			o.Status, o.Description = c.Status, c.Description
		}
		return
	}
	m.apps.recount(a, func() {
		if len(a.crashes) == perTable {
			a.crashes = slices.Delete(a.crashes, 0, 1)
		}
		a.crashes = append(a.crashes, crash{c, m.clock.now})
	})
	if len(a.crashes) == 1 {
		m.wakes.add(m.clock.in(m.cfg.FlappingTimeout)+1, wake{what: wakeCrashes, place: at(a.id, 0)})
	}
}

// pruneCrashes drops what is older than FlappingTimeout.
func (m *Machine) pruneCrashes(a *app) {
	if a == nil || len(a.crashes) == 0 {
		return
	}
	m.apps.recount(a, func() {
		a.crashes = slices.DeleteFunc(a.crashes, func(c crash) bool { return c.at.add(m.cfg.FlappingTimeout) < m.clock.now })
	})
	if len(a.crashes) == 0 {
		a.crashes = nil
		m.backlog.mark(at(a.id, 0))
		return
	}
	m.wakes.add(a.crashes[0].at.add(m.cfg.FlappingTimeout)+1, wake{what: wakeCrashes, place: at(a.id, 0)})
}

// Crashes returns the crash table of an app, the oldest first: at most 100 lines,
// none older than FlappingTimeout.
func (m *Machine) Crashes(name string) []Crash {
	a := m.apps.lookup(name)
	if a == nil {
		return nil
	}
	var out []Crash
	for _, c := range a.crashes {
		if c.at.add(m.cfg.FlappingTimeout) >= m.clock.now {
			c.At = m.clock.time(c.at)
			out = append(out, c.Crash)
		}
	}
	return out
}

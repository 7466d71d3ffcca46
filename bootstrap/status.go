package bootstrap

import "time"

// Process is a process of the plan as it is now.
type Process struct {
	App      string    `json:"app,omitempty"`      // of a signal
	Signal   string    `json:"signal"`             // namespace/name; "autoscaler" for the autoscaler
	Version  string    `json:"version,omitempty"`  // what runs; empty if weir ships it
	Wanted   string    `json:"wanted,omitempty"`   // what should run: the pinned version, or one that was promoted
	Address  string    `json:"address,omitempty"`  // of a signal: its socket
	Kind     Kind      `json:"kind,omitempty"`     // of a signal that was started: plugin or exec
	Columnar bool      `json:"columnar,omitempty"` // it offered the columnar body
	State    string    `json:"state"`              // of package supervise; "fetching", "not fetched" before the first start
	PID      int       `json:"pid,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"`
	Why      string    `json:"why,omitempty"` // what is wrong, or where the release came from
	// Yanked is why its release was withdrawn while it runs; empty: it was not.
	Yanked string `json:"yanked,omitempty"`
	// Unenforced is which of its limits do not hold, and why; empty: all hold.
	Unenforced string `json:"unenforced,omitempty"`
	// User is the user id that a signal runs as; 0: that of bootstrap, and SameUser is
	// the reason, and what to do about it.
	User     int    `json:"user,omitempty"`
	SameUser string `json:"same_user,omitempty"`
	// Candidate runs beside the signal: it is about to take its place, or is
	// its shadow. It is nil if there is none.
	Candidate *Process `json:"candidate,omitempty"`
	// Alive is the autoscaler's latest sign of life; nil before the first.
	Alive *Alive `json:"alive,omitempty"`
	// Trial is how the plan's shadow does; nil if it has none.
	Trial *TrialStatus `json:"trial,omitempty"`
}

// Alive is a sign of life of the autoscaler.
type Alive struct {
	At time.Time `json:"at"`
	// Overdue: the next one should have come.
	Overdue bool `json:"overdue,omitempty"`
	// RestartAt is when bootstrap starts it again without another one; zero: bootstrap
	// does not know the tick.
	RestartAt time.Time `json:"restart_at,omitzero"`
}

// TrialStatus is a trial with what it takes to pass it.
type TrialStatus struct {
	Trial
	PromoteAfter int `json:"promote_after,omitempty"` // ticks in a row; 0: never
}

// Status is all processes of a pool as they are now.
type Status struct {
	Cluster    string    `json:"cluster"`
	Pool       string    `json:"pool"`
	PID        int       `json:"pid"`
	Signals    []Process `json:"signals"`
	Autoscaler Process   `json:"autoscaler"`
}

// Title names a process for people: "web (shop/rps)", "autoscaler".
func (p Process) Title() string {
	if p.App == "" {
		return p.Signal
	}
	return p.App + " (" + p.Signal + ")"
}

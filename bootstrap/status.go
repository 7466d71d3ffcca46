package bootstrap

import "time"

// Process is the current state of a process of the plan.
type Process struct {
	App      string    `json:"app,omitempty"`      // of a signal
	Signal   string    `json:"signal"`             // namespace/name; "autoscaler" for the autoscaler
	Version  string    `json:"version,omitempty"`  // running version; empty for shipped signals
	Wanted   string    `json:"wanted,omitempty"`   // wanted version: the pinned or promoted one
	Address  string    `json:"address,omitempty"`  // of a signal: its socket
	Kind     Kind      `json:"kind,omitempty"`     // of a started signal: plugin or exec
	Columnar bool      `json:"columnar,omitempty"` // it supports the columnar body
	State    string    `json:"state"`              // state of package supervise; before the first start "fetching" or "not fetched"
	PID      int       `json:"pid,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"`
	Why      string    `json:"why,omitempty"` // what is wrong, or where the release came from
	// Yanked is why the running release was withdrawn; empty: not withdrawn.
	Yanked string `json:"yanked,omitempty"`
	// Unenforced lists the limits that are not enforced, and why; empty: all are enforced.
	Unenforced string `json:"unenforced,omitempty"`
	// User is the user id of a signal. 0 means bootstrap's user; SameUser then gives the reason and the remedy.
	User     int    `json:"user,omitempty"`
	SameUser string `json:"same_user,omitempty"`
	// Candidate runs beside the signal, to replace it or as its shadow; nil: no candidate.
	Candidate *Process `json:"candidate,omitempty"`
	// Alive is the autoscaler's last sign of life; nil before the first.
	Alive *Alive `json:"alive,omitempty"`
	// Trial is the trial of the plan's shadow; nil without a shadow.
	Trial *TrialStatus `json:"trial,omitempty"`
}

// Alive describes the autoscaler's last sign of life.
type Alive struct {
	At time.Time `json:"at"`
	// Overdue: the next sign of life is late.
	Overdue bool `json:"overdue,omitempty"`
	// RestartAt is when bootstrap restarts the autoscaler without another sign of life; zero: the tick is unknown.
	RestartAt time.Time `json:"restart_at,omitzero"`
}

// TrialStatus is a trial with its requirement.
type TrialStatus struct {
	Trial
	PromoteAfter int `json:"promote_after,omitempty"` // ticks in a row; 0: never
}

// Status is the current state of all processes of a pool.
type Status struct {
	Cluster    string    `json:"cluster"`
	Pool       string    `json:"pool"`
	PID        int       `json:"pid"`
	Signals    []Process `json:"signals"`
	Autoscaler Process   `json:"autoscaler"`
}

// Title returns a display name: "web (shop/rps)", "autoscaler".
func (p Process) Title() string {
	if p.App == "" {
		return p.Signal
	}
	return p.App + " (" + p.Signal + ")"
}

package api

import (
	"fmt"
	"time"
)

// Alive describes the autoscaler's last sign of life.
type Alive struct {
	At time.Time `json:"at"`
	// Overdue: the next sign of life is late.
	Overdue bool `json:"overdue,omitempty"`
	// RestartAt is when bootstrap restarts the autoscaler without another sign of life; zero: the tick is unknown.
	RestartAt time.Time `json:"restart_at,omitzero"`
}

// ProcessKind defines how bootstrap communicates with a signal's process, in addition to its socket.
type ProcessKind string

const (
	KindRelease ProcessKind = ""       // by the release's manifest: a plugin if it names a protocol
	KindPlugin  ProcessKind = "plugin" // a go-plugin with the control service
	KindExec    ProcessKind = "exec"   // any executable, without a control connection
)

// Process is the current state of a process of the plan.
type Process struct {
	App      string      `json:"app,omitempty"`      // of a signal
	Signal   string      `json:"signal"`             // namespace/name; "autoscaler" for the autoscaler
	Version  string      `json:"version,omitempty"`  // running version; empty for shipped signals
	Wanted   string      `json:"wanted,omitempty"`   // wanted version: the pinned or promoted one
	Address  string      `json:"address,omitempty"`  // of a signal: its socket
	Kind     ProcessKind `json:"kind,omitempty"`     // of a started signal: plugin or exec
	Columnar bool        `json:"columnar,omitempty"` // it supports the columnar body
	State    string      `json:"state"`              // state of package supervise; before the first start "fetching" or "not fetched"
	PID      int         `json:"pid,omitempty"`
	Since    time.Time   `json:"since,omitzero"`
	Restarts int         `json:"restarts"`
	Why      string      `json:"why,omitempty"` // what is wrong, or where the release came from
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

// Title returns a display name: "web (shop/rps)", "autoscaler".
func (p Process) Title() string {
	if p.App == "" {
		return p.Signal
	}
	return p.App + " (" + p.Signal + ")"
}

// PoolProcesses is the current state of all processes of a pool.
type PoolProcesses struct {
	Cluster    string    `json:"cluster"`
	Pool       string    `json:"pool"`
	PID        int       `json:"pid"`
	Signals    []Process `json:"signals"`
	Autoscaler Process   `json:"autoscaler"`
}

// Trial compares a shadow with the pinned version of a plan. Each app has one trial. A plan with another pinned version
// or another shadow starts a new trial.
type Trial struct {
	App      string       `json:"app"`
	Signal   string       `json:"signal"` // namespace/name
	Pinned   string       `json:"pinned"` // version
	Shadow   string       `json:"shadow"` // version
	Outcome  TrialOutcome `json:"outcome,omitempty"`
	Why      string       `json:"why,omitempty"` // reason for the outcome
	Agreeing int          `json:"agreeing"`      // agreeing answers in a row since the shadow's start
	Compared int          `json:"compared"`      // number of compared answers
	// Difference is the last difference found.
	Difference string    `json:"difference,omitempty"`
	Since      time.Time `json:"since"` // start of the outcome
}

// TrialOutcome is the state of a trial.
//
//	            N agreeing in a row            crash loop
//	undecided ───────────────────────► promoted ─────────► rolled_back
//	    │ │
//	    │ └── a difference (if it may be promoted) or no answer ──► diverged
//	    └──── its process ended ────────────────► crashed
//
// All states other than undecided and promoted are final.
type TrialOutcome string

const (
	TrialUndecided  TrialOutcome = ""            // the shadow runs beside the pinned version
	TrialPromoted   TrialOutcome = "promoted"    // final unless it fails: it replaced the pinned version
	TrialDiverged   TrialOutcome = "diverged"    // a difference above the tolerance, a failure or no response
	TrialCrashed    TrialOutcome = "crashed"     // its process ended or did not start
	TrialRolledBack TrialOutcome = "rolled_back" // it crashed repeatedly after its promotion; the pinned version runs again
)

// TrialStatus is a trial with its requirement.
type TrialStatus struct {
	Trial
	PromoteAfter int `json:"promote_after,omitempty"` // ticks in a row; 0: never
}

// BootstrapStatus is bootstrap's response to "weir signal ps" and "weir status".
type BootstrapStatus struct {
	PoolProcesses
	// Refused is why the files are not what runs; empty if they are.
	Refused string `json:"refused,omitempty"`
	// Full lists the full disks of bootstrap's data folder.
	Full []*FullDisk `json:"full,omitempty"`
}

// FullDisk is a disk without the needed space.
type FullDisk struct {
	Path  string `json:"path"`  // a path on the disk
	Free  uint64 `json:"free"`  // bytes available to this user
	Need  uint64 `json:"need"`  // bytes
	Files bool   `json:"files"` // the disk has free bytes but accepts no more files
	// Reserve: the disk was full, and the free bytes were reserved for the bus.
	Reserve bool `json:"reserve,omitempty"`
}

// Error implements error.
func (f *FullDisk) Error() string {
	if f.Files {
		return fmt.Sprintf("disk full: %s accepts no more files, although %d MB are free: remove files there", f.Path, f.Free>>20)
	}
	if f.Reserve {
		return fmt.Sprintf("disk nearly full: %s has %d MB left of its reserve, and needs %d MB: free or add space", f.Path, f.Free>>20, f.Need>>20)
	}
	return fmt.Sprintf("disk full: %s has %d MB free and needs %d MB: free or add space", f.Path, f.Free>>20, f.Need>>20)
}

// ExitRestart is the exit status by which the autoscaler requests a restart, for example after a change of its files.
// It does not count as a failure. The restart follows at once, unless there were several within some minutes.
const ExitRestart = 75

// RestartRequest requests that bootstrap restarts the signal of an app.
type RestartRequest struct {
	App string `json:"app"`
}

// RestartAnswer is bootstrap's response.
type RestartAnswer struct {
	Error string `json:"error,omitempty"` // empty: the signal is restarted
}

// ProcessLogsRequest requests the output of an app's signal from bootstrap.
type ProcessLogsRequest struct {
	App   string `json:"app"`
	After uint64 `json:"after"`          // the sequence number of the last known line
	Last  int    `json:"last,omitempty"` // at most so many lines; 0: as many as fit
}

// ProcessLogsAnswer is bootstrap's response.
type ProcessLogsAnswer struct {
	Lines []LogLine `json:"lines"`
	Next  uint64    `json:"next"` // the next request's After
	More  bool      `json:"more"` // more lines are available
	Error string    `json:"error,omitempty"`
}

// LogLine is one line of a process.
type LogLine struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

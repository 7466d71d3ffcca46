package api

// Beat is one app instance in a heartbeat.
type Beat struct {
	Partition string    `json:"cc_partition"`
	App       string    `json:"droplet"`
	Version   string    `json:"version"`
	Instance  string    `json:"instance"` // unique id of this copy
	Index     int       `json:"index"`    // at least 0
	State     CopyState `json:"state"`
	Since     float64   `json:"state_timestamp"` // unix seconds
	// Unready: it cannot replace another copy yet, or no more. A node of protocol version 1 does not send it.
	Unready bool `json:"unready,omitempty"`
}

// Heartbeat is the complete list of what a node runs.
type Heartbeat struct {
	Node  string `json:"dea"`
	Beats []Beat `json:"droplets"`
}

// Exited reports that an app instance ended.
type Exited struct {
	Partition   string     `json:"cc_partition"`
	App         string     `json:"droplet"`
	Version     string     `json:"version"`
	Instance    string     `json:"instance"`
	Index       int        `json:"index"`
	Reason      ExitReason `json:"reason"`
	Status      *int       `json:"exit_status"`
	Description string     `json:"exit_description"`
	CrashedAt   int64      `json:"crash_timestamp,omitempty"` // unix seconds
	// Repeated: the node has reported it before. It repeats the end of an instance that is done, in case a message was lost.
	Repeated bool `json:"repeated,omitempty"`
}

// ExitReason is the reason of an exit.
type ExitReason string

const (
	ExitCrashed    ExitReason = "CRASHED"
	ExitStopped    ExitReason = "STOPPED"
	ExitShutdown   ExitReason = "DEA_SHUTDOWN"
	ExitEvacuation ExitReason = "DEA_EVACUATION"
)

// CopyState is the state of an app instance, as its node reports it.
type CopyState string

const (
	CopyStarting   CopyState = "STARTING"
	CopyRunning    CopyState = "RUNNING"
	CopyCrashed    CopyState = "CRASHED"
	CopyEvacuating CopyState = "EVACUATING" // running on a node that drains
)

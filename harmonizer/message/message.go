package message

import (
	"cmp"
	"maps"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Subjects on the bus.
const (
	SubjectHeartbeat = "dea.heartbeat"         // Heartbeat, from a legacy DEA
	SubjectExited    = "droplet.exited"        // Exited, from a legacy DEA
	SubjectUpdated   = "droplet.updated"       // Updated, from the program that changed an app
	SubjectAnnounce  = "healthmanager.start"   // empty; legacy DEAs answer with a Heartbeat
	SubjectStart     = "health.start"          // Start, to the placer or cloud controller
	SubjectStop      = "health.stop"           // Stop, to the same
	SubjectStatus    = "healthmanager.status"  // StatusQuery; the answer is a StatusAnswer
	SubjectHealth    = "healthmanager.health"  // HealthQuery; one HealthAnswer for each app
	SubjectDroplet   = "healthmanager.droplet" // DropletQuery; one answer for each app, with its full state
)

// RequestsSubject is the subject on which the classic health manager sends start and stop
// requests.
func RequestsSubject(partition string) string { return requests + "." + partition }

// requests is the same subject in the first health manager, which had no partitions.
const requests = "cloudcontrollers.hm.requests"

// CredentialsSubject is the subject for requests of the bulk API's Credentials.
func CredentialsSubject(partition string) string {
	return "cloudcontroller.bulk.credentials." + partition
}

// EventsSubject is the subject on which the harmonizer publishes its findings.
func EventsSubject(cluster string) string { return names.Subject(cluster, "harmonizer", "events") }

// LoopbackProbeSubject is the subject on which the harmonizer sends messages to itself.
func LoopbackProbeSubject(cluster string) string {
	return names.Subject(cluster, "harmonizer", "loopback")
}

// OrderSubject is the subject for an operator's orders to the harmonizer.
func OrderSubject(cluster string) string { return names.Subject(cluster, "harmonizer", "order") }

// Partition is the only cc_partition that we send.
const Partition = "default"

// State is the state of an app instance, as its node reports it.
type State string

const (
	Starting   State = "STARTING"
	Running    State = "RUNNING"
	Crashed    State = "CRASHED"
	Evacuating State = "EVACUATING" // running on a node that drains
)

// Heartbeat is the complete list of what a node runs.
type Heartbeat struct {
	Node  string `json:"dea"`
	Beats []Beat `json:"droplets"`
}

// Beat is one app instance in a heartbeat.
type Beat struct {
	Partition string  `json:"cc_partition"`
	App       string  `json:"droplet"`
	Version   string  `json:"version"`
	Instance  string  `json:"instance"` // unique id of this copy
	Index     int     `json:"index"`    // at least 0
	State     State   `json:"state"`
	Since     float64 `json:"state_timestamp"` // unix seconds
}

// Reason is the reason of an exit.
type Reason string

const (
	ReasonCrashed    Reason = "CRASHED"
	ReasonStopped    Reason = "STOPPED"
	ReasonShutdown   Reason = "DEA_SHUTDOWN"
	ReasonEvacuation Reason = "DEA_EVACUATION"
)

// Exited reports that an app instance ended.
type Exited struct {
	Partition   string `json:"cc_partition"`
	App         string `json:"droplet"`
	Version     string `json:"version"`
	Instance    string `json:"instance"`
	Index       int    `json:"index"`
	Reason      Reason `json:"reason"`
	Status      *int   `json:"exit_status"`
	Description string `json:"exit_description"`
	CrashedAt   int64  `json:"crash_timestamp,omitempty"` // unix seconds
}

// Updated reports that an app's expected state changed.
type Updated struct {
	Partition string `json:"cc_partition"`
	App       string `json:"droplet"`
}

// Start requests one copy at each of the indices.
type Start struct {
	App         string         `json:"droplet"`
	LastUpdated int64          `json:"last_updated"` // unix seconds
	Version     string         `json:"version"`
	Indices     []int          `json:"indices"`
	Running     map[string]int `json:"running"` // version -> copies
	Flapping    bool           `json:"flapping"`
}

// Stop requests the end of these copies.
type Stop struct {
	App         string            `json:"droplet"`
	LastUpdated int64             `json:"last_updated"`
	Instances   map[string]string `json:"instances"` // instance -> version
	Running     map[string]int    `json:"running"`
	Version     string            `json:"version"`
}

// AppState is whether an app should run.
type AppState string

// States of an app; an empty one means AppStarted.
const (
	AppStarted AppState = "STARTED"
	AppStopped AppState = "STOPPED"
)

// PackageState is whether an app can be started.
type PackageState string

// States of a package; an empty one means PackageStaged.
const (
	PackageStaged  PackageState = "STAGED"
	PackagePending PackageState = "PENDING"
	PackageFailed  PackageState = "FAILED"
)

// App is the expected state of one application: a row of a source. In the key-value bucket
// AppsBucket, the key is its name.
type App struct {
	Name      string    `json:"name"`
	Pool      string    `json:"pool"`
	Instances int       `json:"instances"`
	Version   string    `json:"version"`           // changes with the command and the resources, not with Instances
	Command   string    `json:"command"`           // for /bin/sh -c; empty in rows of a bulk API
	Release   string    `json:"release,omitempty"` // NAMESPACE/NAME@VERSION of the files for the command; empty: none
	CPUs      float64   `json:"cpus"`              // of one copy
	Mem       float64   `json:"mem"`               // MB, of one copy
	Disk      float64   `json:"disk"`              // MB, of one copy
	GPUs      float64   `json:"gpus"`
	Updated   time.Time `json:"updated"`

	State   AppState          `json:"state,omitempty"`
	Package PackageState      `json:"package_state,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"` // framework, runtime, ...
}

// Equal reports whether two rows are equal, with defaults filled in.
func (a App) Equal(b App) bool {
	return a.Name == b.Name && a.Pool == b.Pool && a.Instances == b.Instances && a.Version == b.Version &&
		a.Command == b.Command && a.Release == b.Release && a.Footprint() == b.Footprint() && a.Updated.Equal(b.Updated) &&
		cmp.Or(a.State, AppStarted) == cmp.Or(b.State, AppStarted) &&
		cmp.Or(a.Package, PackageStaged) == cmp.Or(b.Package, PackageStaged) && maps.Equal(a.Labels, b.Labels)
}

// AppsBucket returns the name of the JetStream key-value bucket with the expected state of a
// cluster.
func AppsBucket(cluster string) string { return names.AppsBucket(cluster) }

// NodeSubject is the subject on which the agent of a node publishes its pools.NodeFacts.
func NodeSubject(cluster, node string) string { return names.Subject(cluster, "node", node) }

// HeartbeatSubject is the subject on which the agent of a node publishes its Heartbeat.
func HeartbeatSubject(cluster, node string) string {
	return names.Subject(cluster, heartbeatToken, node)
}

// ExitedSubject is the subject on which the agent of a node publishes its Exited.
func ExitedSubject(cluster, node string) string { return names.Subject(cluster, exitedToken, node) }

// AnnounceSubject is the subject of an empty message. Each agent answers it with its facts and its Heartbeat.
func AnnounceSubject(cluster string) string { return names.Subject(cluster, "announce") }

// Tokens of the subjects of agents.
const (
	heartbeatToken = "heartbeat"
	exitedToken    = "exited"
)

// OfNode returns the node in the HeartbeatSubject or the ExitedSubject of any cluster, and the legacy subject of the
// same messages. For another subject the node is empty, and the subject is returned. The sender chooses the node: check
// it with names.ValidToken.
func OfNode(subject string) (node, legacy string) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 4 || tokens[0] != "weir" {
		return "", subject
	}
	switch tokens[2] {
	case heartbeatToken:
		return tokens[3], SubjectHeartbeat
	case exitedToken:
		return tokens[3], SubjectExited
	}
	return "", subject
}

// Footprint returns the resources of one copy of the app.
func (a App) Footprint() resource.Vector {
	return resource.Vector{a.CPUs, a.Mem, a.Disk, a.GPUs}
}

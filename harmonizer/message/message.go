package message

import (
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Subjects on the bus.
const (
	SubjectHeartbeat = "dea.heartbeat"   // Heartbeat, from a legacy DEA
	SubjectExited    = "droplet.exited"  // Exited, from a legacy DEA
	SubjectUpdated   = "droplet.updated" // Updated, from the program that changed an app
	SubjectStart     = "health.start"    // Start, to the placer or cloud controller
	SubjectStop      = "health.stop"     // Stop, to the same
)

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

// Updated reports that an app's expected state changed.
type Updated struct {
	Partition string `json:"cc_partition"`
	App       string `json:"droplet"`
}

// AppsBucket returns the name of the JetStream key-value bucket with the expected state of a
// cluster.
func AppsBucket(cluster string) string { return names.AppsBucket(cluster) }

// NodeSubject is the subject on which the agent of a node publishes its api.NodeFacts.
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

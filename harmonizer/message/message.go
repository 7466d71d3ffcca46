package message

import (
	"cmp"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
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

// Node is a node: a name in a pool. Two pools may have a node of one name. A legacy DEA has no pool.
type Node struct{ Pool, Name string }

// String returns POOL/NAME, and NAME of a legacy DEA.
func (n Node) String() string {
	return api.NodeName(n.Pool, n.Name)
}

// MarshalText returns String: a Node may be the key of a JSON object.
func (n Node) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (n *Node) UnmarshalText(text []byte) error {
	pool, name, found := strings.Cut(string(text), "/")
	if !found {
		pool, name = "", pool
	}
	*n = Node{pool, name}
	return nil
}

// Compare orders nodes by pool, then by name.
func (n Node) Compare(o Node) int {
	return cmp.Or(cmp.Compare(n.Pool, o.Pool), cmp.Compare(n.Name, o.Name))
}

// Validate returns an error unless the pool and the name may be tokens of a subject. The pool of a legacy DEA is empty.
func (n Node) Validate() error {
	if n.Pool != "" {
		if err := names.CheckToken("pool", n.Pool); err != nil {
			return err
		}
	}
	return names.CheckToken("node", n.Name)
}

// FactsSubject is the subject on which the agent of a node publishes its api.NodeFacts.
func FactsSubject(cluster string, n Node) string { return n.subject(cluster, factsToken) }

// HeartbeatSubject is the subject on which the agent of a node publishes its Heartbeat.
func HeartbeatSubject(cluster string, n Node) string { return n.subject(cluster, heartbeatToken) }

// ExitedSubject is the subject on which the agent of a node publishes its Exited.
func ExitedSubject(cluster string, n Node) string { return n.subject(cluster, exitedToken) }

func (n Node) subject(cluster, token string) string {
	return names.Subject(cluster, token, n.Pool, n.Name)
}

// AnnounceSubject is the subject of an empty message. Each agent answers it with its facts and its Heartbeat.
func AnnounceSubject(cluster string) string { return names.Subject(cluster, "announce") }

// MaxNodeMessage bounds a heartbeat and the facts of a node, in bytes: about 300 copies. Receivers drop a larger one before
// it waits, and an agent accepts no copy that its heartbeat could not list.
const MaxNodeMessage = 64 << 10

// SenderOf returns POOL.NODE in the subject of an agent, and nothing for another subject. It does not allocate.
func SenderOf(subject string) string {
	rest, ours := strings.CutPrefix(subject, "weir.")
	_, rest, _ = strings.Cut(rest, ".")
	token, sender, _ := strings.Cut(rest, ".")
	switch token {
	case heartbeatToken, exitedToken, factsToken, lifecycleToken:
		if ours && strings.Count(sender, ".") == 1 {
			return sender
		}
	}
	return ""
}

// NodeOfSender returns the node of what SenderOf returns.
func NodeOfSender(sender string) Node {
	pool, name, _ := strings.Cut(sender, ".")
	return Node{pool, name}
}

// Tokens of the subjects of agents.
const (
	heartbeatToken = "heartbeat"
	exitedToken    = "exited"
	factsToken     = "node"
	lifecycleToken = "lifecycle" // of hints to node health
)

// SubjectFacts is what OfNode returns for the FactsSubject. Legacy DEAs publish no facts.
const SubjectFacts = "node"

// OfNode returns the node in the HeartbeatSubject, the ExitedSubject or the FactsSubject of any cluster, and the legacy
// subject of the same messages, or SubjectFacts. For another subject the node is empty, and the subject is returned. The
// sender chooses the node: check it with Node.Validate.
func OfNode(subject string) (n Node, legacy string) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 5 || tokens[0] != "weir" {
		return Node{}, subject
	}
	n = Node{tokens[3], tokens[4]}
	switch tokens[2] {
	case heartbeatToken:
		return n, SubjectHeartbeat
	case exitedToken:
		return n, SubjectExited
	case factsToken:
		return n, SubjectFacts
	}
	return Node{}, subject
}

package core

import (
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
)

// PoolLabel is the label of a node that has the name of its pool.
const PoolLabel = "weirkeeper.dev/pool"

// groupLabel is the label of a node that has the name of its group. It is optional.
const groupLabel = "weirkeeper.dev/group"

// DrainTaint is the key of the taint of a node that Weirkeeper has cordoned.
const DrainTaint = "weirkeeper.dev/draining"

// CordonAnnotation is the annotation of a node with the latest accepted cordon, as JSON.
const CordonAnnotation = "weirkeeper.dev/cordon"

// HostnameLabel is different on each node.
const HostnameLabel = "kubernetes.io/hostname"

// Labels of a node that describe its machine.
const (
	zoneLabel = "topology.kubernetes.io/zone"
	typeLabel = "node.kubernetes.io/instance-type"
)

// Ready is the condition Ready of a node.
type Ready uint8

const (
	ReadyUnknown Ready = iota // the node's kubelet does not report: the node is silent
	ReadyFalse
	ReadyTrue
)

// Taint keeps pods that do not tolerate it from a node.
type Taint struct{ Key, Value, Effect string }

// Node is what the adapter keeps of a Node object.
type Node struct {
	Name, UID  string
	ID         string // of the machine at its provider: the last part of spec.providerID; empty: unknown
	ProviderID string // as it is; for people
	BootID     string
	Labels     map[string]string
	Taints     []Taint
	Alloc      Vector // allocatable
	Slots      int64  // pods that the node allows
	Ready      Ready
	ReadyWhy   string
	// Conditions are all but Ready.
	Conditions    []api.NodeCondition
	Unschedulable bool
	Protected     bool // an annotation forbids to remove it
	Cut           bool // the labels exceed their bound, and some are missing
	// Ends is when the provider takes the machine of a cordoned node in any case, in Unix seconds; 0: unknown.
	Ends int64
}

// Draining reports whether Weirkeeper has cordoned the node.
func (n *Node) Draining() bool {
	return slices.ContainsFunc(n.Taints, func(t Taint) bool { return t.Key == DrainTaint })
}

func (n *Node) equal(o *Node) bool {
	return n.Name == o.Name && n.UID == o.UID && n.ID == o.ID && n.ProviderID == o.ProviderID && n.BootID == o.BootID && n.Alloc == o.Alloc &&
		n.Slots == o.Slots && n.Ready == o.Ready && n.ReadyWhy == o.ReadyWhy && n.Unschedulable == o.Unschedulable && n.Protected == o.Protected &&
		n.Cut == o.Cut && n.Ends == o.Ends && maps.Equal(n.Labels, o.Labels) && slices.Equal(n.Taints, o.Taints) && slices.Equal(n.Conditions, o.Conditions)
}

// Pool selects the nodes of one pool.
type Pool struct {
	Name string
	// Selector has labels that each node of the pool has. Empty: PoolLabel with the pool's name.
	Selector map[string]string
	// Default: pods that select no pool wait for machines of this one. At most one pool of a cluster has it.
	Default bool
	// Startup are keys of taints that a new node has until it accepts pods, beside those of StartupTaint.
	Startup []string
	// Templates are machines that the pool can add, for a pool without nodes.
	Templates []Shape
}

// selector returns the labels of the pool's nodes.
func (p *Pool) selector() map[string]string {
	if len(p.Selector) > 0 {
		return p.Selector
	}
	return map[string]string{PoolLabel: p.Name}
}

// has reports whether a node with these labels belongs to the pool.
func (p *Pool) has(labels map[string]string) bool {
	for key, value := range p.selector() {
		if v, ok := labels[key]; !ok || v != value {
			return false
		}
	}
	return true
}

// startupPrefix begins the keys of startup taints of cluster-autoscaler.
const startupPrefix = "startup-taint.cluster-autoscaler.kubernetes.io/"

// startupTaint returns the key of a taint that shows that the node has not started yet; empty: there is no such taint.
func (p *Pool) startupTaint(taints []Taint) string {
	for _, t := range taints {
		if isStartup(t.Key) || slices.Contains(p.Startup, t.Key) {
			return t.Key
		}
	}
	return ""
}

func isStartup(key string) bool {
	switch key {
	case "node.kubernetes.io/not-ready", "node.cloudprovider.kubernetes.io/uninitialized":
		return true
	}
	return len(key) > len(startupPrefix) && key[:len(startupPrefix)] == startupPrefix
}

package core

import (
	"math"
	"time"
)

// Kind of a pod.
type Kind uint8

const (
	KindTask   Kind = iota // work: it counts, and it is evicted
	KindDaemon             // of a DaemonSet, or static: it is part of its node
)

// Forever is the Protected of a pod that an annotation protects without an end.
const Forever = math.MaxInt64

// Pod is what the adapter keeps of a Pod object that has not finished.
type Pod struct {
	UID, Namespace, Name string
	Node                 string // name of its node; empty: not bound
	Owner                string // its controller: "ReplicaSet/web-5d8f"; empty: no controller
	Kind                 Kind
	Batch                bool // of a Job: it ends by itself
	Deleting             bool // it has a deletionTimestamp: it counts until it is gone
	// Waits: the scheduler found no node for it, and it does not wait for a preemption.
	Waits bool
	// Protected is until when an annotation, or the lack of a controller, forbids to evict the pod. Unix seconds; 0: it
	// does not.
	Protected int64
	Req       Vector
	Grace     int32  // seconds that it has to end
	Message   string // of the scheduler, if the pod waits
	// New: the scheduler has not reported yet whether it finds a node.
	New    bool
	Rules  *Rules
	Claims []string // of volumes, as NAMESPACE/NAME
}

// Key returns NAMESPACE/NAME.
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }

// isProtected reports whether the pod may not be evicted at this time.
func (p *Pod) isProtected(now time.Time) bool { return p.Protected > now.Unix() }

// moves reports whether a pod needs another place if its node leaves. What replaces one that ends already does not come from here.
func (p *Pod) moves() bool { return p.Kind == KindTask && !p.Deleting }

// same reports whether both count the same on their node.
func (p *Pod) same(o *Pod) bool {
	return p.Node == o.Node && p.Kind == o.Kind && p.Batch == o.Batch && p.Req == o.Req && p.Protected == o.Protected
}

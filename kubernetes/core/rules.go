package core

// Rules are what a pod requires of its node and of the pods around it, beside its size. Pods with equal rules share one value, which
// does not change. nil: the pod may run anywhere.
type Rules struct {
	Namespace string
	Labels    map[string]string // of the pod
	// Selector has labels that its node must have, for people: Selects decides.
	Selector map[string]string
	// Selects returns why the pod cannot run on a node with this name and these labels; empty: it can. nil: on each.
	Selects func(name string, labels map[string]string) string
	// Tolerates returns why the pod cannot run on a node with these taints; empty: it can. nil: it tolerates each taint.
	Tolerates func(taints []Taint) string
	Ports     []Port
	Apart     []Apart
	Spread    []Spread
	// Unknown is a requirement that this package does not understand, for people; empty: it understands all of them.
	Unknown string
}

// Port is a port of the node that a pod takes. Its address does not count: two pods with one port need two nodes.
type Port struct {
	Protocol string
	Number   int32
}

// Apart is a term of required anti-affinity: no pod that it matches runs in the same topology as its pod.
type Apart struct {
	Key      string // equal for equal terms
	Topology string // a label of nodes
	Matches  func(namespace string, labels map[string]string) bool
}

// Spread bounds how unequally the pods of a namespace that it matches are spread over a topology. Its pod does not run where the bound
// would be exceeded.
type Spread struct {
	Topology   string // a label of nodes
	MaxSkew    int    // at least 1
	MinDomains int    // with fewer domains, the smallest number of pods in one counts as 0
	Matches    func(labels map[string]string) bool
	AllNodes   bool // nodes count that the pod does not select
	Tolerated  bool // nodes with taints that the pod does not tolerate do not count
}

// Budget is a PodDisruptionBudget.
type Budget struct {
	UID, Namespace, Name string
	Allowed              int // evictions that it allows now
	Matches              func(labels map[string]string) bool
}

// Volume is a bound volume of a claim.
type Volume struct {
	UID, Claim string // Claim is NAMESPACE/NAME
	// Selects is as that of Rules: on which nodes the volume can be used.
	Selects func(name string, labels map[string]string) string
}

// noRules are those of a pod without any.
var noRules = &Rules{}

// rules returns what the pod requires.
func (p *Pod) rules() *Rules {
	if p.Rules == nil {
		return noRules
	}
	return p.Rules
}

// mismatch returns why a pod cannot run on a machine with these labels and taints, whatever its size; empty: it can.
func (r *Rules) mismatch(name string, labels map[string]string, taints []Taint) string {
	if r.Selects != nil {
		if why := r.Selects(name, labels); why != "" {
			return why
		}
	}
	if r.Tolerates != nil && len(taints) > 0 {
		return r.Tolerates(taints)
	}
	return ""
}

package nodehealth

import (
	"sync"
	"time"
)

// recheckGap is the least time between two re-checks: each asks the provider of the
// whole pool.
const recheckGap = time.Second

// recheckBurst is how many may follow each other so closely: anybody on the bus can
// cause them.
const recheckBurst = 5

// rechecks are the nodes to be observed now.
type rechecks struct {
	wake chan struct{} // holds one token if there are some

	mu    sync.Mutex
	nodes map[string]bool
}

func newRechecks() *rechecks {
	return &rechecks{wake: make(chan struct{}, 1), nodes: map[string]bool{}}
}

// add takes a node that the judge knows, which bounds them.
func (r *rechecks) add(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[node] = true
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *rechecks) take() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes := r.nodes
	r.nodes = map[string]bool{}
	return nodes
}

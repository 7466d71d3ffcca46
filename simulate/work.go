package simulate

import (
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Work is what the machines have to do. One run uses it, and its times never go back.
type Work interface {
	// Requests returns what an app needs, as of a time; of the app "", all of them.
	Requests(at time.Time, app string) resource.Request
	// Step places the work of now on the nodes, in order of their age: it sets Allocated and Tasks of each.
	Step(now time.Time, nodes []*Node) Load
	// Until returns the load on the nodes just before now, since the last Step. It changed linearly.
	Until(now time.Time) Load
	// Next returns when the work changes next in another way than linearly; zero: never.
	Next(now time.Time) time.Time
}

// Load is the work at one moment.
type Load struct {
	Wanted resource.Vector // what all work needs
	Lacks  resource.Vector // what has no place; below 0: the room that is left
	// Waiting is since when the work that waits longest has no place; zero: the work has no memory, and Lacks shows it.
	Waiting time.Time
}

// Node is a machine that has joined.
type Node struct {
	ID, Group, Zone string
	Machine         resource.Vector
	Cordoned        time.Time // zero: it takes work
	Allocated       resource.Vector
	Tasks           int
}

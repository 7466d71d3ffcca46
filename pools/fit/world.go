package fit

import (
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// World is a pool at one moment.
type World struct {
	Nodes    []*Node // with different ids
	Waiting  []Copy  // copies without a node, or that are to leave a node of Question.Gone; each once
	Question api.PlacesQuestion
	Headroom []Headroom   // one for each of Question.Headroom; nil: none
	Rules    func() Rules // returns those of a new plan; nil: none
}

// Headroom is a number of places that are to stay free. Copies that wait go first.
type Headroom struct {
	Place  Copy // App is the name of the headroom, and Group is where it is
	Wanted int
	Why    string // why the number is unknown; empty: it is known
}

// Node is a machine that exists.
type Node struct {
	ID     string
	Group  string
	Size   resource.Vector // what it offers to copies, in total
	Room   resource.Vector // the free part of Size; below 0 if it has too many copies
	Has    map[Held]int    // how many copies it has, of what copies have limits for
	Copies []Copy          // that need another place when the node leaves, the largest first; unused for nodes of Gone
	Closed bool            // it takes no further copy
	Stays  string          // why it cannot be emptied, for people; empty: it may be
}

// Copy is a copy of an app that needs a place.
type Copy struct {
	App       string
	Index     int
	Name      string // for people; empty: App/Index
	Rule      any    // what the Rules read; copies with different ones are of different classes
	Footprint resource.Vector
	Limits    []Limit
	Leaves    string // the node that still has it: of a waiting copy one of Question.Gone; empty: none, or Rules do not need it
	Group     string // the only group for it; empty: any
	headroom  int    // a free place of headroom-1 in World.Headroom; 0: a copy
}

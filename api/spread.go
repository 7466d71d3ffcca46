package api

// Spread is how the copies of an application are spread over the machines of its pool.
type Spread struct {
	// By is what a copy goes to first: the node, or the zone, with the fewest copies of the application. The other one counts next.
	By SpreadBy `json:"by,omitempty"`
	// AtMostPerNode bounds the copies of the application on one node. Further ones wait for another node. 0: any number. Copies that
	// run when it becomes lower stay where they are.
	AtMostPerNode int `json:"at_most_per_node,omitempty"`
}

// SpreadBy is what the copies of an application are spread by.
type SpreadBy string

// Values of SpreadBy; an empty one means SpreadByNode.
const (
	SpreadByNode SpreadBy = "node"
	SpreadByZone SpreadBy = "zone"
)

// MostPerNode returns Spread.AtMostPerNode; 0: any number.
func (a App) MostPerNode() int {
	if a.Spread == nil {
		return 0
	}
	return a.Spread.AtMostPerNode
}

package api

// PlacedCopy is a copy on a node, as its node reports it.
type PlacedCopy struct {
	Instance string `json:"instance"`
	Node     string `json:"node"`
	App      string `json:"app"`
	Version  string `json:"version"`
	Index    int    `json:"index"`
}

// PlacedQuery requests from a scheduler whether it put copies on their nodes, also those that ended in the last 10 minutes.
type PlacedQuery struct {
	Copies []PlacedCopy `json:"copies"` // at most 500
}

// PlacedAnswer is the answer. A copy in neither list is unknown: the scheduler has no record of earlier placements.
type PlacedAnswer struct {
	Placed    []string `json:"placed"`     // instances
	NotPlaced []string `json:"not_placed"` // instances
}

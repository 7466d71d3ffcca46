package api

import "time"

// Simulated is what a simulation of one policy came to, on average over its seeds.
type Simulated struct {
	Policy     string    `json:"policy"`
	Seeds      int       `json:"seeds"`
	From       time.Time `json:"from"`
	To         time.Time `json:"to"` // earlier than the end of the scenario if the run was cancelled
	Currency   string    `json:"currency,omitempty"`
	Cost       *Estimate `json:"cost,omitempty"` // nil: the scenario has no prices
	Wanted     float64   `json:"wanted_cpu_hours"`
	Unmet      Estimate  `json:"unmet_cpu_hours"`
	UnmetShare float64   `json:"unmet_share"` // of the wanted cpu-hours, 0 to 1
	// UnmetBy and UnusedBy are by kind of resource, in its unit times hours: what the work needed and no machine did, and what
	// joined machines offered and no work used.
	UnmetBy     map[string]float64 `json:"unmet_resource_hours"`
	UnusedBy    map[string]float64 `json:"unused_resource_hours"`
	Waited      float64            `json:"longest_wait_s"`             // the longest of all seeds
	WaitedAt    time.Time          `json:"longest_wait_from,omitzero"` // when it began
	Used        float64            `json:"used_share"`                 // of the offered cpu-hours, 0 to 1
	Hours       float64            `json:"machine_hours"`              // billed
	Markets     []SimulatedMarket  `json:"markets"`
	Changes     float64            `json:"target_changes"`            // ticks that decided another target of a group than the one before
	Launches    float64            `json:"launches"`                  // machines
	Interrupted float64            `json:"interrupted"`               // machines that the provider ended
	Removed     float64            `json:"removed"`                   // machines that the pool ended
	Broken      float64            `json:"failed_machines,omitempty"` // that did no more work
	Repaired    float64            `json:"repaired,omitempty"`        // of these, machines that node health replaced
	Disrupted   float64            `json:"disrupted_copies"`          // copies that were up, and ended although their app needed them
	Failed      int                `json:"failed_ticks"`              // of all seeds: ticks without a decision
	Dominated   string             `json:"beaten_by,omitempty"`       // a policy with less cost and less unmet demand
	// Rank is the place by the objective, from 1 on, and Misses are its bounds that the policy misses; 0: there is no objective.
	Rank   int      `json:"rank,omitempty"`
	Misses []string `json:"misses,omitempty"`
}

// SimulatedMarket is the bill of one market, on average over the seeds.
type SimulatedMarket struct {
	Market string   `json:"market"` // "on-demand m5.large in us-east-1a"
	Hours  float64  `json:"machine_hours"`
	Cost   *float64 `json:"cost,omitempty"` // nil: the scenario has no prices
}

// Estimate is a mean with half of the width of its 95 % interval over the seeds; with one seed, the width is unknown and 0.
type Estimate struct {
	Mean float64 `json:"mean"`
	Half float64 `json:"half_width"`
}

// Replayed is the comparison of a recorded pool with its replay.
type Replayed struct {
	Cluster    string    `json:"cluster"`
	Pool       string    `json:"pool"`
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	Ticks      int       `json:"ticks"`       // that were compared
	Same       int       `json:"same"`        // with the same target and the same targets of all groups
	SameTarget int       `json:"same_target"` // with the same target
	SameGroups int       `json:"same_groups"` // with the same targets of all groups
	Takeovers  int       `json:"takeovers"`   // by another process
	Skipped    int       `json:"skipped"`     // records without a decision, or that this weir cannot read
	Notes      []string  `json:"notes,omitempty"`
}

// ReplayedTick is a tick whose replay decided otherwise.
type ReplayedTick struct {
	At             time.Time      `json:"at"`
	Target         float64        `json:"target"`
	Replayed       float64        `json:"replayed"`
	Groups         map[string]int `json:"groups"`
	ReplayedGroups map[string]int `json:"replayed_groups"`
	Cause          string         `json:"cause"` // the first difference of what both found
}

// PolicyCheck compares the recorded policy of a pool with another one, in the same recorded past.
type PolicyCheck struct {
	Cluster string         `json:"cluster"`
	Pool    string         `json:"pool"`
	From    time.Time      `json:"from"`
	To      time.Time      `json:"to"`
	Ticks   int            `json:"ticks"`
	Numbers []PolicyNumber `json:"numbers"`
	Notes   []string       `json:"notes,omitempty"` // what the comparison leaves out
}

// PolicyNumber is one of the numbers of a policy: cost, unmet, wait or disruption. Less is better.
type PolicyNumber struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Bound  float64 `json:"bound"` // by which part of Before it may be larger
	Worse  bool    `json:"worse"` // it is larger by more
}

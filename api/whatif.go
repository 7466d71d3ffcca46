package api

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/resource"
)

// WhatIf is a change of a pool that does not happen: the preview of the next tick is as if it did.
type WhatIf struct {
	// Without are the machines that are away, each as node/ID, group/ID or zone/NAME. A group that is away, and one with machines in
	// zones that are away only, gets no machine.
	Without []string `json:"without,omitempty"`
	// Need is what the signals of these apps request.
	Need map[string]resource.Request `json:"need,omitempty"`
	// Prices multiply prices. All that match a machine apply.
	Prices []PriceFactor `json:"prices,omitempty"`
	// Rotate are rotations that operators order.
	Rotate []StaleMark `json:"rotate,omitempty"`
}

// PriceFactor multiplies the price of some machines.
type PriceFactor struct {
	Of string  `json:"of"` // spot, on-demand, a type or group/ID
	By float64 `json:"by"` // 0 to 1000
}

// Applies reports whether the price of a group's machines of a market is multiplied.
func (f PriceFactor) Applies(group string, m MarketOffer) bool {
	return f.Of == m.InstanceType || f.Of == "group/"+group || f.Of == "spot" && m.Spot || f.Of == "on-demand" && !m.Spot
}

// Bounds of a WhatIf.
const (
	maxWhatIf      = 1000 // entries
	maxWhatIfBytes = 300  // of a name
)

// Empty reports whether w changes nothing.
func (w WhatIf) Empty() bool { return len(w.Without)+len(w.Need)+len(w.Prices)+len(w.Rotate) == 0 }

// Validate returns an error if w is too large.
func (w WhatIf) Validate() error {
	if n := len(w.Without) + len(w.Need) + len(w.Prices) + len(w.Rotate); n > maxWhatIf {
		return fmt.Errorf("%d changes, at most %d are allowed", n, maxWhatIf)
	}
	for _, f := range w.Prices {
		if f.Of == "" || len(f.Of) > maxWhatIfBytes || !(f.By >= 0 && f.By <= 1000) {
			return fmt.Errorf("price %.80q times %v: want spot, on-demand, a type or group/ID, and 0 to 1000", f.Of, f.By)
		}
	}
	if slices.ContainsFunc(w.Without, func(name string) bool { return len(name) > maxWhatIfBytes }) {
		return errors.New("a name is too long")
	}
	for app, r := range w.Need {
		if app == "" || len(app) > maxWhatIfBytes {
			return errors.New("the name of an app is empty or too long")
		}
		for _, k := range resource.Kinds() {
			if x, named := r.Get(k); named && !(x >= 0 && x <= 1e12) {
				return fmt.Errorf("app %s needs %v %s: want at least 0", app, x, k)
			}
		}
	}
	return nil
}

// GroupCost is what an hour of the machines of a group costs.
type GroupCost struct {
	Group   string  `json:"group"`
	Market  string  `json:"market"`
	Now     float64 `json:"now"`
	Plan    float64 `json:"plan"`    // with the target of the plan
	Assumed float64 `json:"assumed"` // the same, with the assumed prices
}

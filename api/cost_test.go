package api_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// A cost of few parts has the sums of the whole one, which does not change.
func TestCostAtMost(t *testing.T) {
	var c api.Cost
	for i := range 90 {
		p := api.CostPart{Group: fmt.Sprintf("g%02d", i), Market: "on-demand m5", Cause: api.CostServing, Machines: 1}
		switch i % 3 {
		case 1:
			p.Cause, p.Rule = api.CostHeld, "cooldown"
		case 2:
			p.Market = "spot c5"
		}
		if i%3 < 2 {
			p.PerHour = new(0.25)
			c.PerHour += 0.25
		}
		c.Parts = append(c.Parts, p)
	}
	few := c.AtMost(40)
	machines, hour := 0.0, 0.0
	for _, p := range few.Parts {
		machines += p.Machines
		if p.PerHour != nil {
			hour += *p.PerHour
		}
	}
	if len(few.Parts) != 43 || machines != 90 || math.Abs(hour-c.PerHour) > 1e-9 || few.PerHour != c.PerHour {
		t.Errorf("%d parts of %v machines for %v, want 43 of 90 for %v", len(few.Parts), machines, hour, c.PerHour)
	}
	if got := few.Unpriced(); len(got) != 2 || got[0] != api.OtherParts || got[1] != "spot c5" {
		t.Errorf("without a price: %v", got)
	}
	if len(c.Parts) != 90 || *c.Parts[40].PerHour != 0.25 {
		t.Error("the whole cost changed")
	}
	if same := few.AtMost(43); len(same.Parts) != 43 {
		t.Errorf("%d parts", len(same.Parts))
	}
}

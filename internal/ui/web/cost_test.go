package web

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// The figure of a cost that is unknown in part is a lower bound, and has how many markets lack a price.
func TestCostFigure(t *testing.T) {
	part := func(market string, hour ...float64) api.CostPart {
		p := api.CostPart{Market: market}
		if hour != nil {
			p.PerHour = &hour[0]
		}
		return p
	}
	tests := []struct {
		name, value, rest string
		cost              api.Cost
	}{
		{"known", "2.50", "USD", api.Cost{Currency: "USD", PerHour: 2.5, Parts: []api.CostPart{part("a", 2.5)}}},
		{"no machine", "0.00", "USD", api.Cost{Currency: "USD"}},
		{"in part", "≥ 2.50", "USD, no price of 1 market", api.Cost{Currency: "USD", PerHour: 2.5, Parts: []api.CostPart{part("a", 2.5), part("b"), part("b")}}},
		{"no price", "–", "no price of 2 markets", api.Cost{Currency: "USD", Parts: []api.CostPart{part("a"), part("b")}}},
		{"no file", "–", "the price file cannot be read", api.Cost{Failed: "open p.csv", Parts: []api.CostPart{part("a")}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if f := costFigure(test.cost); f.Value != test.value || f.Rest != test.rest {
				t.Errorf("costFigure = %q %q, want %q %q", f.Value, f.Rest, test.value, test.rest)
			}
		})
	}
}

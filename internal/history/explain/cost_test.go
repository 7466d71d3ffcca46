package explain

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// A cost that is unknown in part is a lower bound, and names what it lacks.
func TestCostText(t *testing.T) {
	serving := api.CostPart{Group: "g", Market: "on-demand m5 in z", Cause: api.CostServing, Machines: 2, PerHour: new(2.5)}
	held := api.CostPart{Group: "g", Market: "on-demand m5 in z", Cause: api.CostHeld, Rule: "cooldown", Machines: 0.5, PerHour: new(0.0123)}
	unknown := api.CostPart{Group: "g", Market: "spot c5 in z", Cause: api.CostDraining, Machines: 1}
	tests := []struct {
		name, want, section string
		cost                api.Cost
	}{
		{"known", "cost per hour 2.51 USD: serving 2.50, held by cooldown 0.0123", "\ncost per hour: 2.51 USD\n" +
			"      2.50  g on-demand m5 in z, serving: 2 machines\n    0.0123  g on-demand m5 in z, held by cooldown: 0.50 machines\n",
			api.Cost{Currency: "USD", PerHour: 2.5123, Parts: []api.CostPart{serving, held}}},
		{"in part", "cost per hour at least 2.50 USD: serving 2.50; no price of spot c5 in z: add it to p.csv, by hand or with \"weir prices\"", "\ncost per hour: at least 2.50 USD; no price of spot c5 in z: add it to p.csv, by hand or with \"weir prices\"\n" +
			"      2.50  g on-demand m5 in z, serving: 2 machines\n   unknown  g spot c5 in z, draining: 1 machine\n",
			api.Cost{Currency: "USD", PerHour: 2.5, Parts: []api.CostPart{serving, unknown}, Files: []string{"p.csv"}}},
		{"no price", "cost per hour unknown; no price of spot c5 in z: add it to p.csv, by hand or with \"weir prices\"", "\ncost per hour: unknown; no price of spot c5 in z: add it to p.csv, by hand or with \"weir prices\"\n   unknown  g spot c5 in z, draining: 1 machine\n",
			api.Cost{Currency: "USD", Parts: []api.CostPart{unknown}, Files: []string{"p.csv"}}},
		{"no file", "cost per hour unknown; the prices are unknown: open p.csv", "\ncost per hour: unknown; the prices are unknown: open p.csv\n", api.Cost{Failed: "open p.csv"}},
		{"no machine", "cost per hour 0.00 USD", "\ncost per hour: 0.00 USD\n", api.Cost{Currency: "USD"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := CostLine(test.cost); got != test.want {
				t.Errorf("CostLine = %s\nwant %s", got, test.want)
			}
			var b strings.Builder
			if writeCost(&b, &test.cost); b.String() != test.section {
				t.Errorf("the section is %s\nwant %s", b.String(), test.section)
			}
		})
	}
}

package history

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// billed returns the summary of a tick of a minute: machines that serve for 1 an hour each, and held ones without a price.
func billed(at time.Duration, serving, held float64) api.Summary {
	return api.Summary{Pool: "web", At: billNoon.Add(at), Every: time.Minute, Cost: &api.Cost{Currency: "USD", PerHour: serving, Parts: []api.CostPart{
		{Group: "g", Market: "on-demand m5", Cause: api.CostHeld, Rule: "cooldown", Machines: held},
		{Group: "g", Market: "on-demand m5", Cause: api.CostServing, Machines: serving, PerHour: &serving},
	}}}
}

var billNoon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// text returns a bill on one line.
func billText(b api.Bill) string {
	var out strings.Builder
	out.WriteString(fmt.Sprintf("%.4f %s, %.4f h, %s", b.Cost, b.Currency, b.Hours, b.To.Sub(b.From)))
	for _, p := range b.Parts {
		cost := "unknown"
		if p.Cost != nil {
			cost = fmt.Sprintf("%.4f", *p.Cost)
		}
		out.WriteString(fmt.Sprintf("; %s %s %.4f h: %s", p.Group, p.Cause.Text(p.Rule), p.Hours, cost))
	}
	for _, g := range b.Gaps {
		out.WriteString(fmt.Sprintf("; %s to %s %s", g.From.Sub(billNoon), g.To.Sub(billNoon), g.Why))
	}
	return out.String()
}

// Each bill was computed by hand.
func TestBillOfSummaries(t *testing.T) {
	paused := func(at time.Duration) api.Summary {
		return api.Summary{At: billNoon.Add(at), Every: time.Minute, Paused: &api.Note{}}
	}
	failed := func(at time.Duration, why string) api.Summary {
		return api.Summary{At: billNoon.Add(at), Every: time.Minute, Failed: why}
	}
	const m = time.Minute
	dry, other, away := billed(m, 9, 9), billed(2*m, 1, 0), billed(m, 1, 0)
	dry.DryRun, other.Cost.Currency, away.Cost.Failed = true, "EUR", "open p.csv"
	tests := []struct {
		name  string
		ticks []api.Summary
		want  string
	}{
		{"two ticks, the last counts for a period", []api.Summary{billed(0, 6, 3), billed(m, 12, 0)}, "0.3000 USD, 0.3500 h, 2m0s; g serving 0.3000 h: 0.3000; g held by cooldown 0.0500 h: unknown"},
		{"a dry run does not count", []api.Summary{billed(0, 6, 0), dry}, "0.1000 USD, 0.1000 h, 1m0s; g serving 0.1000 h: 0.1000; g held by cooldown 0.0000 h: unknown"},
		{"a late tick", []api.Summary{billed(0, 6, 0), billed(150*time.Second, 6, 0)}, "0.3500 USD, 0.3500 h, 3m30s; g serving 0.3500 h: 0.3500; g held by cooldown 0.0000 h: unknown"},
		{"missing ticks", []api.Summary{billed(0, 6, 0), billed(10*m, 6, 0)}, "0.2000 USD, 0.2000 h, 11m0s; g serving 0.2000 h: 0.2000; g held by cooldown 0.0000 h: unknown; 1m0s to 10m0s no tick is recorded"},
		{"a pause", []api.Summary{billed(0, 6, 0), paused(m), paused(2 * m), billed(3*m, 6, 0)}, "0.2000 USD, 0.2000 h, 4m0s; g serving 0.2000 h: 0.2000; g held by cooldown 0.0000 h: unknown; 1m0s to 3m0s the pool was paused"},
		{"failed ticks", []api.Summary{failed(0, "x"), failed(m, "y")}, "0.0000 , 0.0000 h, 2m0s; 0s to 2m0s the ticks failed"},
		{"the clock went back", []api.Summary{billed(0, 6, 0), billed(2*m, 6, 0), billed(m, 12, 0), billed(3*m, 6, 0)},
			"0.5000 USD, 0.5000 h, 4m0s; g serving 0.5000 h: 0.5000; g held by cooldown 0.0000 h: unknown; 1m0s to 2m0s the clock of the autoscaler went back: this time counts once"},
		{"another currency, and no prices", []api.Summary{billed(0, 6, 0), away, other}, "0.1000 USD, 0.1000 h, 3m0s; g serving 0.1000 h: 0.1000; g held by cooldown 0.0000 h: unknown; " +
			"1m0s to 2m0s the prices were unknown: open p.csv; 2m0s to 3m0s the prices were in EUR, and before in USD"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var b Billing
			for _, s := range test.ticks {
				b.Add(s)
			}
			bill, ok := b.Bill(billNoon.Add(time.Hour))
			if got := billText(bill); !ok || got != test.want {
				t.Errorf("Bill = %s\nwant   %s", got, test.want)
			}
		})
	}
	if _, ok := new(Billing).Bill(billNoon); ok {
		t.Error("a pool without a tick has a bill")
	}
}

// The bill names the files without a price of a market, and how many machine-hours it lacks.
func TestBillWithoutPrices(t *testing.T) {
	s := billed(0, 6, 30)
	s.Cost.Files = []string{"prices.csv"}
	var b Billing
	b.Add(s)
	b.Add(billed(time.Minute, 6, 0))
	bill, _ := b.Bill(billNoon.Add(time.Hour))
	markets, hours := bill.Unpriced()
	if len(markets) != 1 || markets[0] != "on-demand m5" || math.Abs(hours-0.5) > 1e-9 || len(bill.Files) != 1 || bill.Files[0] != "prices.csv" {
		t.Errorf("%v h of %q lack in %q, want half an hour of on-demand m5 in prices.csv", hours, markets, bill.Files)
	}
}

// A bill has all hours of a long time: those of its parts and of its gaps.
func TestBillOfManyTicks(t *testing.T) {
	var b Billing
	want := 0.0
	for i := range 10_000 {
		n := float64(i % 7)
		s := billed(time.Duration(i)*time.Minute, n, 0)
		s.Cost = new(s.Cost.AtMost(1))
		b.Add(s)
		want += n / 60
	}
	bill, _ := b.Bill(billNoon.Add(10_000 * time.Minute))
	if math.Abs(bill.Cost-want) > 1e-6 || math.Abs(bill.Hours-want) > 1e-6 || bill.Gaps != nil || !strings.Contains(billText(bill), "166h40m0s") {
		t.Errorf("%s, want %v", billText(bill), want)
	}
}

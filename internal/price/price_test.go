package price_test

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/price"
)

var (
	noon   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	demand = price.Market{Type: "m5.large", Zone: "us-east-1a"}
	spot   = price.Market{Type: "m5.large", Zone: "us-east-1a", Spot: true}
)

// prices has 0.36 an hour on demand, and spot for 0.036 until an hour after noon, then for 0.072.
func prices(t *testing.T) *price.Prices {
	t.Helper()
	var p price.Prices
	for _, one := range []struct {
		m     price.Market
		from  time.Time
		price float64
	}{
		{price.Market{Type: "m5.large"}, time.Time{}, 0.36},
		{spot, noon.Add(time.Hour), 0.072},
		{spot, noon.Add(-time.Hour), 0.036},
	} {
		if err := p.Set(one.m, one.from, one.price); err != nil {
			t.Fatal(err)
		}
	}
	return &p
}

// Each bill was computed by hand, in billionths.
func TestBills(t *testing.T) {
	after := func(d time.Duration) time.Time { return noon.Add(d) }
	tests := []struct {
		name   string
		market price.Market
		use    price.Use
		want   price.Money
	}{
		{"an hour", demand, price.Use{From: noon, To: after(time.Hour)}, 360_000_000},
		{"a second is a minute", demand, price.Use{From: noon, To: after(time.Second)}, 6_000_000},
		{"less than a minute is a minute", demand, price.Use{From: noon, To: after(59500 * time.Millisecond)}, 6_000_000},
		{"a second more than a minute", demand, price.Use{From: noon, To: after(61 * time.Second)}, 6_100_000},
		{"a begun second", demand, price.Use{From: noon, To: after(90200 * time.Millisecond)}, 9_100_000},
		{"thirty days", demand, price.Use{From: noon, To: after(720 * time.Hour)}, 259_200_000_000},
		{"spot across a change: 30 min at 0.036, 30 min at 0.072", spot, price.Use{From: after(30 * time.Minute), To: after(90 * time.Minute)}, 54_000_000},
		{"spot before the first price", spot, price.Use{From: after(-3 * time.Hour), To: after(-2 * time.Hour)}, 36_000_000},
		{"interrupted in the first hour", spot, price.Use{From: noon, To: after(59 * time.Minute), Interrupted: true}, 0},
		{"interrupted after the first hour: 60 min at 0.036, 30 min at 0.072", spot, price.Use{From: noon, To: after(90 * time.Minute), Interrupted: true}, 72_000_000},
		{"on demand, lost", demand, price.Use{From: noon, To: after(30 * time.Minute), Interrupted: true}, 180_000_000},
		{"ended before it ran", demand, price.Use{From: noon, To: noon}, 0},
		{"ended by the user in the first hour", spot, price.Use{From: noon, To: after(30 * time.Minute)}, 18_000_000},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := price.Linux().Charge(prices(t), test.market, test.use)
			if err != nil || got != test.want {
				t.Errorf("Charge = %d, %v, want %d", got, err, test.want)
			}
		})
	}
}

// Whole hours are billed if that is a rule.
func TestBillOfWholeHours(t *testing.T) {
	b := price.Billing{Minimum: time.Hour, Unit: time.Hour}
	got, err := b.Charge(prices(t), demand, price.Use{From: noon, To: noon.Add(61 * time.Minute)})
	if err != nil || got != 720_000_000 {
		t.Errorf("Charge = %d, %v, want two hours", got, err)
	}
}

// A market without a price is an error, also if it was not used.
func TestMarketWithoutPriceIsAnError(t *testing.T) {
	for _, m := range []price.Market{{Type: "m5.large", Zone: "us-east-1b", Spot: true}, {Type: "c5.large"}, {}} {
		for _, use := range []price.Use{{From: noon, To: noon.Add(time.Hour)}, {From: noon, To: noon}} {
			if got, err := price.Linux().Charge(prices(t), m, use); err == nil {
				t.Errorf("Charge of %v = %v, want an error", m, got)
			}
		}
	}
}

// The price of the type and the zone counts before that of the type, of the zone, and of all.
func TestPriceFallsBack(t *testing.T) {
	var p price.Prices
	want := []struct {
		m     price.Market
		price float64
	}{{price.Market{Type: "a", Zone: "z"}, 1}, {price.Market{Type: "a"}, 2}, {price.Market{Zone: "z"}, 3}, {price.Market{}, 4}}
	for _, w := range want {
		if err := p.Set(w.m, time.Time{}, w.price); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range []struct {
		m     price.Market
		price price.Money
	}{{price.Market{Type: "a", Zone: "z"}, 1}, {price.Market{Type: "a", Zone: "y"}, 2}, {price.Market{Type: "b", Zone: "z"}, 3}, {price.Market{Type: "b", Zone: "y"}, 4}} {
		if got, err := p.Between(w.m, noon, noon.Add(time.Hour)); err != nil || got != w.price*price.Unit {
			t.Errorf("an hour of %v costs %v, %v, want %d", w.m, got.Float(), err, w.price)
		}
	}
}

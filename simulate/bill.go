package simulate

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/price"
)

// bill adds up the machines that ended. The loop may end machines concurrently: all sums are of whole numbers, so that their order has
// no effect.
type bill struct {
	scenario *Scenario
	columns  columns

	mu          sync.Mutex
	launches    int
	interrupted int
	removed     int
	markets     map[price.Market]*Market
	failed      error
}

// Market is the bill of one market.
type Market struct {
	price.Market
	Machines int     // that were billed
	Hours    float64 // of all machines, without the part of the launch that is not billed
	Cost     price.Money
	Columns  []price.Money // Cost by column; nil: the run has no columns

	used int64 // Hours in milliseconds
}

func newBill(s *Scenario) *bill {
	return &bill{scenario: s, columns: newColumns(s), markets: map[price.Market]*Market{}}
}

func (b *bill) launch() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.launches++
}

// end bills a machine that ended.
func (b *bill) end(g Group, launched, at time.Time, byProvider bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if byProvider {
		b.interrupted++
	} else {
		b.removed++
	}
	b.chargeLocked(g, price.Use{From: b.billedFrom(g, launched), To: at, Interrupted: byProvider})
}

// rest bills a machine that exists at the end of the run.
func (b *bill) rest(g Group, launched, end time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chargeLocked(g, price.Use{From: b.billedFrom(g, launched), To: end})
}

// billedFrom returns when the bill of a machine begins. Those of the start have joined then.
func (b *bill) billedFrom(g Group, launched time.Time) time.Time {
	if launched.Equal(b.scenario.Start) {
		return launched
	}
	return launched.Add(g.Pending)
}

func (b *bill) chargeLocked(g Group, u price.Use) {
	m := b.markets[g.Market]
	if m == nil {
		m = &Market{Market: g.Market}
		b.markets[g.Market] = m
	}
	if used := u.To.Sub(u.From); used > 0 {
		m.Machines++
		m.used += used.Milliseconds()
	}
	if b.scenario.Prices == nil {
		return
	}
	cost, err := b.scenario.Billing.Charge(b.scenario.Prices, g.Market, u)
	m.Cost += cost
	if u.To.After(u.From) {
		m.Columns = b.columns.spread(m.Columns, u.From, u.To, cost)
	}
	b.failed = errors.Join(b.failed, err)
}

// result returns the bills of all markets, in order.
func (b *bill) result() ([]Market, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Market
	for _, m := range b.markets {
		m.Hours = float64(m.used) / float64(time.Hour.Milliseconds())
		all = append(all, *m)
	}
	slices.SortFunc(all, func(x, y Market) int { return cmp.Compare(x.String(), y.String()) })
	return all, b.failed
}

package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// Billing adds up what the machines of a pool cost, from the summaries of its ticks. The cost of a tick counts until the next tick. It
// has one owner.
type Billing struct {
	bill  api.Bill
	parts map[billKey]*billSum
	last  *api.Summary
	until time.Time // of what the bill has
}

type billKey struct {
	group, market string
	cause         api.CostCause
	rule          string
	priced        bool
}

type billSum struct{ hours, cost float64 }

// longestTick is how many periods the cost of a tick counts at most. Beyond them, ticks are missing.
const longestTick = 3

// Add adds the next tick. It ignores dry runs.
func (b *Billing) Add(s api.Summary) {
	if s.DryRun {
		return
	}
	if b.last == nil {
		b.bill.Pool, b.bill.From, b.until, b.parts = s.Pool, s.At, s.At, map[billKey]*billSum{}
	} else {
		b.count(s.At)
	}
	b.last = &s
}

// count counts the last tick until a time.
func (b *Billing) count(to time.Time) {
	s, from := b.last, b.last.At
	if to.Before(from) {
		b.gap(to, from, "the clock of the autoscaler went back: this time counts once")
		return
	}
	if from.Before(b.until) { // after the clock went back
		from = b.until
	}
	if end := s.At.Add(s.Every); to.Sub(s.At) > longestTick*s.Every && end.After(from) {
		b.gap(end, to, "no tick is recorded")
		to = end
	}
	if !from.Before(to) {
		return
	}
	switch b.until = to; {
	case s.Cost == nil && s.Paused != nil:
		b.gap(from, to, "the pool was paused")
	case s.Cost == nil && s.Failed != "":
		b.gap(from, to, "the ticks failed")
	case s.Cost == nil:
		b.gap(from, to, "weir.yaml named no prices")
	case s.Cost.Failed != "":
		b.gap(from, to, "the prices were unknown: "+s.Cost.Failed)
	case b.bill.Currency != "" && s.Cost.Currency != b.bill.Currency:
		b.gap(from, to, fmt.Sprintf("the prices were in %s, and before in %s", s.Cost.Currency, b.bill.Currency))
	default:
		b.bill.Currency = s.Cost.Currency
		b.charge(*s.Cost, to.Sub(from).Hours())
	}
}

func (b *Billing) charge(c api.Cost, hours float64) {
	if c.Files != nil {
		b.bill.Files = c.Files
	}
	for _, p := range c.Parts {
		key := billKey{p.Group, p.Market, p.Cause, p.Rule, p.PerHour != nil}
		sum := b.parts[key]
		if sum == nil {
			sum = &billSum{}
			b.parts[key] = sum
		}
		sum.hours += p.Machines * hours
		if p.PerHour != nil {
			sum.cost += *p.PerHour * hours
		}
	}
}

// gap adds a time that the bill lacks, or extends the last one.
func (b *Billing) gap(from, to time.Time, why string) {
	if n := len(b.bill.Gaps) - 1; n >= 0 && b.bill.Gaps[n].To.Equal(from) && b.bill.Gaps[n].Why == why {
		b.bill.Gaps[n].To = to
		return
	}
	b.bill.Gaps = append(b.bill.Gaps, api.BillGap{From: from, To: to, Why: why})
}

// Bill returns the bill until now. The last tick counts for one period. ok is false without a tick.
func (b *Billing) Bill(now time.Time) (bill api.Bill, ok bool) {
	if b.last == nil {
		return bill, false
	}
	if end := b.last.At.Add(b.last.Every); end.Before(now) {
		now = end
	}
	b.count(now)
	bill = b.bill
	bill.To, bill.Parts = b.until, []api.BillPart{}
	for key, sum := range b.parts {
		p := api.BillPart{Group: key.group, Market: key.market, Cause: key.cause, Rule: key.rule, Hours: sum.hours}
		if key.priced {
			p.Cost = &sum.cost
		}
		bill.Parts = append(bill.Parts, p)
	}
	slices.SortFunc(bill.Parts, func(x, y api.BillPart) int {
		return cmp.Or(cmp.Compare(costOf(y), costOf(x)), cmp.Compare(y.Hours, x.Hours), cmp.Compare(x.Group, y.Group), cmp.Compare(x.Market, y.Market), cmp.Compare(x.Cause.Text(x.Rule), y.Cause.Text(y.Rule)))
	})
	for _, p := range bill.Parts {
		bill.Hours += p.Hours
		if p.Cost != nil {
			bill.Cost += *p.Cost
		}
	}
	return bill, true
}

// costOf orders the parts without a price after the others.
func costOf(p api.BillPart) float64 {
	if p.Cost == nil {
		return -1
	}
	return *p.Cost
}

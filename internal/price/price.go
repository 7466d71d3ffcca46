package price

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// Money is an amount in billionths of a unit of the currency.
type Money int64

// Unit is one unit of the currency.
const Unit Money = 1e9

// Float returns the amount in units of the currency.
func (m Money) Float() float64 { return float64(m) / float64(Unit) }

// Market is what a provider sells. In a price an empty Type or Zone means each one.
type Market struct {
	Type string
	Zone string
	Spot bool
}

func (m Market) String() string { return api.MarketName(m.Type, m.Zone, m.Spot) }

// Prices are the prices of an hour by market. The zero Prices is empty.
type Prices struct {
	Currency string // such as USD; empty: unknown
	changes  map[Market][]change
	files    []string               // that were read
	history  map[Market][]time.Time // of the spot histories
}

// change is a price from a time until the next change. The first one counts before its time too.
type change struct {
	from  time.Time
	price float64
}

// maxPrice bounds the price of an hour, so that no sum of bills overflows.
const maxPrice = 1e5

// Set sets the price of an hour from a time on. The zero time means always.
func (p *Prices) Set(m Market, from time.Time, price float64) error {
	if !(price >= 0 && price <= maxPrice) {
		return fmt.Errorf("the price of %s is %v: want 0 to %g for an hour", m, price, maxPrice)
	}
	if p.changes == nil {
		p.changes = map[Market][]change{}
	}
	all := p.changes[m]
	i, found := slices.BinarySearchFunc(all, from, func(c change, t time.Time) int { return c.from.Compare(t) })
	if found && all[i].price != price {
		return fmt.Errorf("the price of %s from %s is given twice, as %v and as %v: remove one", m, from.UTC().Format(time.RFC3339), all[i].price, price)
	}
	if !found {
		p.changes[m] = slices.Insert(all, i, change{from, price})
	}
	return nil
}

// of returns the changes of a market. Of several prices that include it, the one with the type counts before the one with the zone.
func (p *Prices) of(m Market) ([]change, error) {
	for _, key := range []Market{m, {Type: m.Type, Spot: m.Spot}, {Zone: m.Zone, Spot: m.Spot}, {Spot: m.Spot}} {
		if all := p.changes[key]; len(all) > 0 {
			return all, nil
		}
	}
	return nil, errors.New(Missing(p.files, m.String()))
}

// Missing returns that files have no price of markets, and what to do.
func Missing(files []string, markets ...string) string {
	in := cmp.Or(strings.Join(files, " or "), "the table of prices")
	return fmt.Sprintf("no price of %s: add it to %s, by hand or with \"weir prices\"", strings.Join(markets, ", "), in)
}

// Files returns the names of the files that were read.
func (p *Prices) Files() []string { return p.files }

// Has returns an error if the market has no price.
func (p *Prices) Has(m Market) error {
	_, err := p.of(m)
	return err
}

// At returns the price of an hour in effect at a time.
func (p *Prices) At(m Market, at time.Time) (Money, error) {
	all, err := p.of(m)
	if err != nil {
		return 0, err
	}
	return Money(math.Round(all[inEffect(all, at)].price * float64(Unit))), nil
}

// inEffect returns the index of the change in effect at a time.
func inEffect(all []change, at time.Time) int {
	i, found := slices.BinarySearchFunc(all, at, func(c change, t time.Time) int { return c.from.Compare(t) })
	if !found {
		i = max(0, i-1) // before the first price, the first one counts
	}
	return i
}

// Between returns the cost from one time to another, at the prices in effect.
func (p *Prices) Between(m Market, from, to time.Time) (Money, error) {
	all, err := p.of(m)
	if err != nil {
		return 0, err
	}
	i, sum := inEffect(all, from), 0.0
	for from.Before(to) {
		end := to
		if i+1 < len(all) && all[i+1].from.Before(to) {
			end = all[i+1].from
		}
		sum += all[i].price * end.Sub(from).Hours()
		from = end
		i++
	}
	return Money(math.Round(sum * float64(Unit))), nil
}

// Billing has the rules of a bill.
type Billing struct {
	Minimum       time.Duration // the least time of a machine that is billed
	Unit          time.Duration // a begun unit is billed; 0: each fraction
	FreeFirstHour bool          // a spot machine that the provider interrupts in its first hour is free
}

// Linux returns the rules for Linux on AWS. "Amazon EC2 pricing" has the unit of a second and the minimum of 60. "Billing for
// interrupted Spot Instances" in the EC2 User Guide has the free first hour.
func Linux() Billing {
	return Billing{Minimum: time.Minute, Unit: time.Second, FreeFirstHour: true}
}

// Use is the use of one machine.
type Use struct {
	From        time.Time // it begins to run
	To          time.Time // its end was requested, or the provider ended it
	Interrupted bool      // the provider ended it
}

// Charge returns the bill of one machine. A machine that ended before it ran is free.
func (b Billing) Charge(p *Prices, m Market, u Use) (Money, error) {
	used := u.To.Sub(u.From)
	if used <= 0 || b.FreeFirstHour && m.Spot && u.Interrupted && used < time.Hour {
		return 0, p.Has(m)
	}
	if rest := used % max(b.Unit, 1); rest > 0 {
		used += b.Unit - rest
	}
	return p.Between(m, u.From, u.From.Add(max(used, b.Minimum)))
}

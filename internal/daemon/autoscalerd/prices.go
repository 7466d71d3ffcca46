package autoscalerd

import (
	"fmt"
	"os"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/internal/price/spending"
	"github.com/weirkeeper/weirkeeper/pools"
)

// priceFiles has the prices of the files that weir.yaml names. It reads them again when one of them changes. One goroutine uses it at
// a time.
type priceFiles struct {
	of     *config.Prices
	state  string // of the files that were read
	at     time.Time
	prices *price.Prices
	err    error
}

// pricesOf returns the prices of a block; nil: weir.yaml names no prices.
func pricesOf(of *config.Prices) *priceFiles {
	if of == nil {
		return nil
	}
	return &priceFiles{of: of}
}

// into sets the ports of a loop for prices.
func (f *priceFiles) into(w autoscaler.World) autoscaler.World {
	if f != nil {
		w.Cost, w.Price = f.cost, f.price
	}
	return w
}

// read reads the files again if they changed.
func (f *priceFiles) read() {
	if state := f.stat(); state != f.state {
		f.state = state
		f.prices, f.err = f.of.Read()
	}
}

// price implements autoscaler.World.Price. The files are the same for all calls with one time.
func (f *priceFiles) price(_ string, m api.MarketOffer, at time.Time) (perHour float64, err error) {
	if !at.Equal(f.at) {
		f.read()
		f.at = at
	}
	if f.err != nil {
		return 0, f.err
	}
	money, err := f.prices.At(price.Market{Type: m.InstanceType, Zone: m.Zone, Spot: m.Spot}, at)
	return money.Float(), err
}

// cost implements autoscaler.World.Cost. If the files cannot be read, the machines have no price.
func (f *priceFiles) cost(r *api.TickRecord, nodes []pools.Node, quarantined func(id string) bool) *api.Cost {
	f.read()
	prices := f.prices
	if f.err != nil {
		prices = &price.Prices{}
	}
	cost := spending.Of(prices, nodes, quarantined, r)
	if f.err != nil {
		cost.Failed = decide.OneLine(f.err.Error())
	}
	return &cost
}

// stat returns a text that differs if a file changed.
func (f *priceFiles) stat() (state string) {
	for _, path := range f.of.Files() {
		info, err := os.Stat(path)
		if err != nil {
			state += err.Error() + "\n"
			continue
		}
		state += fmt.Sprintln(path, info.Size(), info.ModTime().UnixNano())
	}
	return state
}

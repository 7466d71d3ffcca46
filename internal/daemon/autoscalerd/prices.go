package autoscalerd

import (
	"fmt"
	"os"

	"github.com/weirkeeper/weirkeeper/api"
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
	prices *price.Prices
	err    error
}

// costOf returns the port of a loop for the cost of its pool; nil: weir.yaml names no prices.
func costOf(of *config.Prices) func(*api.TickRecord, []pools.Node, func(string) bool) *api.Cost {
	if of == nil {
		return nil
	}
	f := &priceFiles{of: of}
	return f.cost
}

// cost implements autoscaler.World.Cost. If the files cannot be read, the machines have no price.
func (f *priceFiles) cost(r *api.TickRecord, nodes []pools.Node, quarantined func(id string) bool) *api.Cost {
	if state := f.stat(); state != f.state {
		f.state = state
		f.prices, f.err = f.of.Read()
	}
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

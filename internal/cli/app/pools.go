package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/pools/fit"
)

// poolFacts are what one command reads of the pools of applications, each pool once.
type poolFacts struct {
	*commands
	read  func(pool string) pool
	pools map[string]pool

	warned map[string]bool // pools
}

// pool is what a command reads of a pool.
type pool struct {
	sizes []api.MachineSize // nil: unknown
	none  error             // the pool has never ticked
}

func readPools(ctx context.Context, b *bus.Bus, cli *commands) *poolFacts {
	return &poolFacts{cli, func(name string) pool {
		p := pool{sizes: cli.pending(ctx, b, name).Sizes}
		if _, err := view.Last(ctx, b, cli.Cluster, name); errors.Is(err, state.ErrNoRecord) {
			p.none = err
		}
		return p
	}, map[string]pool{}, map[string]bool{}}
}

// of returns the facts of a pool.
func (f *poolFacts) of(name string) pool {
	p, known := f.pools[name]
	if !known {
		p = f.read(name)
		f.pools[name] = p
	}
	return p
}

// whyNever returns a line if no machine of the pool can hold an instance of the application. It is empty if one can, or if the
// machines are unknown.
func (f *poolFacts) whyNever(row api.App) string {
	if row.Instances == 0 {
		return ""
	}
	p := f.of(row.Pool)
	why := fit.WhyNever(row.Footprint(), p.sizes)
	if why == "" {
		return ""
	}
	return view.NeverLine(api.PlacesApp{App: row.Name, Why: why})
}

// warn prints why no machine of its pool can hold an instance of the application, and what is unknown of the pool.
func (f *poolFacts) warn(row api.App, strict bool) {
	warn := func(format string, args ...any) { fmt.Fprintf(f.Stderr, "weir: warning: "+format+"\n", args...) }
	p := f.of(row.Pool)
	if !f.warned[row.Pool] {
		f.warned[row.Pool] = true
		if strict && row.Instances > 0 && p.sizes == nil {
			warn("--strict checks nothing: the machines of pool %s are unknown", row.Pool)
		}
		if p.none != nil {
			warn("%v", p.none)
		}
	}
	if never := f.whyNever(row); never != "" {
		warn("%s", never)
	}
}

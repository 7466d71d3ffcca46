package app

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// poolFacts are what one command reads of the pools of applications, each pool once.
type poolFacts struct {
	*commands
	read  func(pool string) pool
	pools map[string]pool

	warned map[string]bool // pools
	// away: no harmonizer reads the rows. The warning is printed once.
	away bool
}

// pool is what a command reads of a pool.
type pool struct {
	sizes []api.MachineSize // nil: unknown
	none  error             // the pool has never ticked
	kind  string            // of a scheduler that runs no rows; empty: it runs them, or that is unknown
	// kinds are the machines that the pool can have, the largest of each group, and most is their weight at the maximum. unknown names the
	// unknown ones.
	kinds   []api.PlacesKind
	most    float64
	unknown string
}

func readPools(ctx context.Context, b *bus.Bus, cli *commands) *poolFacts {
	_, err := view.Harmonizer(ctx, b, cli.Cluster, api.HarmonizerQuery{Totals: true})
	_, away := errors.AsType[*view.AbsentError](err)
	return &poolFacts{cli, func(name string) pool {
		pending := cli.pending(ctx, b, name)
		p := pool{sizes: pending.Sizes}
		if s := pending.State; s != nil && !s.Rows {
			p.kind = s.Kind
		}
		last, err := view.Last(ctx, b, cli.Cluster, name)
		switch {
		case errors.Is(err, state.ErrNoRecord):
			p.none, p.unknown = err, "it has not ticked yet"
		case err != nil:
			p.unknown = err.Error()
		case last.Case == nil:
			p.unknown = "its last tick did not decide"
		default:
			p.most = last.Case.Input.Policy.Limits.Max
			p.kinds, p.unknown = kindsOf(last)
		}
		return p
	}, map[string]pool{}, map[string]bool{}, away}
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

// refuses returns why the scheduler of the pool does not run the application; empty if it does, or if that is unknown. An application
// without instances is not refused, so that it can be ended.
func (f *poolFacts) refuses(row api.App) string {
	if row.Instances == 0 || row.State == api.AppStopped {
		return ""
	}
	if kind := f.of(row.Pool).kind; kind != "" {
		return api.NoRowsText(row.Pool, kind)
	}
	return ""
}

// warn prints why no machine of its pool can hold an instance of the application, that no harmonizer runs, and the unknown facts of
// the pool.
func (f *poolFacts) warn(row api.App, strict bool) {
	warn := func(format string, args ...any) { fmt.Fprintf(f.Stderr, "weir: warning: "+format+"\n", args...) }
	if f.away {
		f.away = false
		warn("no harmonizer runs: nothing starts or stops; start \"weir harmonizer\", or \"weir up\"")
	}
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

// kindsOf returns the largest machine of each group that a tick had, as far as it is known, and a group whose machines are unknown.
func kindsOf(r api.TickRecord) (kinds []api.PlacesKind, unknown string) {
	for _, g := range r.Case.Groups {
		if g.Max == 0 {
			continue
		}
		k := api.PlacesKind{Group: g.ID}
		for _, m := range r.State.Groups[g.ID].Seen {
			if m.Weight > 0 && m.Resources.Scale(1 / m.Weight)[resource.CPUs] > k.Resources.Scale(1 / max(k.Weight, 1))[resource.CPUs] {
				k.Resources, k.Weight = m.Resources, m.Weight
			}
		}
		if k.Weight == 0 {
			unknown = "the machines of group " + g.ID
			continue
		}
		k.Room = int(min(float64(g.Max)/k.Weight, math.MaxInt32))
		kinds = append(kinds, k)
	}
	return kinds, unknown
}

// holds returns how many instances of the application its pool holds at its maximum, and a clause about that. If known is false, it may
// hold more.
func (p pool) holds(row api.App) (most int, text string, known bool) {
	most = fit.Most(row.Footprint(), p.kinds, p.most)
	switch {
	case p.unknown != "":
		return most, fmt.Sprintf("what pool %s can hold is unknown: %s", row.Pool, p.unknown), false
	case most == math.MaxInt:
		return most, fmt.Sprintf("pool %s holds any number of them", row.Pool), true
	}
	per, where := 0, ""
	for _, k := range p.kinds {
		if n := fit.PerMachine(row.Footprint(), k.Resources); n > per {
			per, where = n, k.Group
		}
	}
	return most, fmt.Sprintf("pool %s holds at most %d of them at its maximum of %s, if nothing else runs: %d on a machine of group %s",
		row.Pool, most, explain.Number(p.most), per, where), true
}

// absurd returns why a change is probably a mistake; empty if it is not, or if that is unknown. A change that needs no more than the old
// row is not one.
func (f *poolFacts) absurd(old, row api.App) string {
	if row.Instances == 0 || row.State == api.AppStopped {
		return ""
	}
	grows := old.Pool != row.Pool || old.State == api.AppStopped || row.Instances > old.Instances || !row.Footprint().Fits(old.Footprint())
	noCPU := row.CPUs == 0 && (old.Name == "" || old.CPUs > 0)
	if !grows && !noCPU {
		return ""
	}
	most, text, known := f.of(row.Pool).holds(row)
	switch {
	case noCPU:
		return fmt.Sprintf("application %s has 0 cpus, so the pool does not grow for its load; %s", row.Name, text)
	case row.Instances <= most:
	case !known:
		fmt.Fprintf(f.Stderr, "weir: warning: the size of application %s is not checked: %s\n", row.Name, text)
	case most > 0: // otherwise no machine can hold one, which is another warning
		return fmt.Sprintf("application %s has %d instances, but %s", row.Name, row.Instances, text)
	}
	return ""
}

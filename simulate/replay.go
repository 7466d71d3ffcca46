package simulate

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Replay runs the recorded policies again in a world with the recorded past, and compares each tick with its record. It calls visit with
// each tick that differs.
func Replay(ctx context.Context, r *Recording, visit func(api.ReplayedTick) error) (api.Replayed, error) {
	s, err := r.Replay()
	if err != nil {
		return api.Replayed{}, err
	}
	out := api.Replayed{Cluster: r.cluster, Pool: r.pool, Skipped: r.skipped}
	out.From, out.To = r.Span()
	k := 0
	var epoch uint64
	s.Sink = func(got api.TickRecord) error {
		t := &r.ticks[k]
		k++
		out.Ticks++
		if t.epoch != epoch && epoch != 0 {
			out.Takeovers++
		}
		epoch = t.epoch
		one := api.ReplayedTick{At: t.at, Target: t.result.Target, Groups: t.result.Groups}
		if got.Result != nil {
			one.Replayed, one.ReplayedGroups = got.Result.Target, got.Result.Groups
		}
		decided := (t.of == nil) == (got.Result == nil)
		target := decided && near(one.Target, one.Replayed)
		groups := decided && maps.Equal(one.Groups, one.ReplayedGroups)
		if target {
			out.SameTarget++
		}
		if groups {
			out.SameGroups++
		}
		if target && groups {
			out.Same++
			return nil
		}
		one.Cause = cause(t, &got)
		return visit(one)
	}
	_, err = Run(ctx, s)
	out.Notes = r.Notes()
	return out, err
}

// near reports whether two numbers differ by rounding only.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// cause returns the first difference of what a recorded tick and its replay found. What comes from outside is before what follows from it.
func cause(t *recordedTick, got *api.TickRecord) string {
	switch {
	case got.Case == nil && got.Paused == nil:
		return "the replay could not decide: " + got.Failed
	case t.of == nil || got.Case == nil:
		return "one was paused"
	}
	was, is := t.of, got.Case
	differ := func(what string, was, is any) string {
		return fmt.Sprintf("%s: recorded %v, replayed %v", what, was, is)
	}
	for _, a := range was.Input.Apps {
		i := slices.IndexFunc(is.Input.Apps, func(b api.AppInput) bool { return b.Name == a.Name })
		if i < 0 || !sameOpinion(a.Opinion, is.Input.Apps[i].Opinion) {
			return "the response of app " + a.Name + " differs"
		}
	}
	if !sameOpinion(was.Input.Default, is.Input.Default) {
		return "the response of the default signal differs"
	}
	if !maps.Equal(was.Has, is.Has) && total(was.Has) == total(is.Has) && was.Input.Lost == is.Input.Lost {
		return differ("weight by group, with the same sum: machines of another group left", was.Has, is.Has)
	}
	for _, one := range []struct {
		what    string
		was, is float64
	}{
		{"offset", was.Input.Offset, is.Input.Offset}, {"pinned target", pinned(was), pinned(is)},
		{"machines lost", float64(was.Input.Lost), float64(is.Input.Lost)},
		{"weight of machines that had joined", was.Input.Capacity.Joined, is.Input.Capacity.Joined},
		{"cpus of machines that had joined", was.Input.Capacity.Totals[resource.CPUs], is.Input.Capacity.Totals[resource.CPUs]},
		{"MB of memory of machines that had joined", was.Input.Capacity.Totals[resource.Mem], is.Input.Capacity.Totals[resource.Mem]},
		{"machines that leave", float64(len(was.Leaving)), float64(len(is.Leaving))},
		{"target before the tick", was.Input.Capacity.Target, is.Input.Capacity.Target},
	} {
		if !near(one.was, one.is) {
			return differ(one.what, one.was, one.is)
		}
	}
	for _, g := range was.Groups {
		i := slices.IndexFunc(is.Groups, func(o api.GroupTarget) bool { return o.ID == g.ID })
		switch {
		case i < 0:
			return "group " + g.ID + " is missing in the replay"
		case is.Groups[i] != g:
			o := is.Groups[i]
			return differ("group "+g.ID+", target, minimum and maximum", []int{g.Target, g.Min, g.Max}, []int{o.Target, o.Min, o.Max})
		case was.Has[g.ID] != is.Has[g.ID]:
			return differ("weight of group "+g.ID, was.Has[g.ID], is.Has[g.ID])
		case was.Busy[g.ID] != is.Busy[g.ID]:
			return "group " + g.ID + " was busy, or only its replay was"
		}
	}
	switch {
	case len(is.Groups) != len(was.Groups):
		return "the pool has a group that the recorded tick does not have"
	case was.Input.Barred != is.Input.Barred || (was.Input.NoScaleIn == "") != (is.Input.NoScaleIn == "") || (was.Refuse == "") != (is.Refuse == ""):
		return "what bars a scale-in differs: recorded " + barred(was) + ", replayed " + barred(is)
	case !slices.EqualFunc(was.State.Backoffs, is.State.Backoffs, func(a, b api.GroupBackoff) bool { return a.Group == b.Group }):
		return differ("groups in backoff", len(was.State.Backoffs), len(is.State.Backoffs))
	case (was.Places == nil) != (is.Places == nil) || was.Places != nil && was.Places.Offered != is.Places.Offered:
		return "the answer of the scheduler differs"
	case was.Input.History != is.Input.History:
		return "the history of the empty pool is not in the recording"
	}
	return "it follows from an earlier tick: the history of changes differs"
}

func total(weights map[string]int) (sum int) {
	for _, weight := range weights {
		sum += weight
	}
	return sum
}

func pinned(c *api.Case) float64 {
	if c.Input.Pinned == nil {
		return -1
	}
	return *c.Input.Pinned
}

func barred(c *api.Case) string {
	for _, why := range []string{c.Input.Barred, c.Input.NoScaleIn, c.Refuse} {
		if why != "" {
			return why
		}
	}
	return "nothing"
}

func sameOpinion(a, b api.Opinion) bool {
	return (a.Verdict == api.VerdictValue) == (b.Verdict == api.VerdictValue) && a.Request == b.Request
}

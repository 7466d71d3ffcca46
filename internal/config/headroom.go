package config

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/pools/provider"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Headroom is a number of places that stay free: max(count, percent), and at most what limits allow.
type Headroom struct {
	Name      string  `yaml:"name"`
	App       string  `yaml:"app"`       // a place has the size of a copy of this app
	Resources Amounts `yaml:"resources"` // the size of a place, without app
	Count     int     `yaml:"count"`
	Percent   float64 `yaml:"percent"` // of the copies of app, or of what all copies of the pool take
	Limits    Amounts `yaml:"limits"`  // the most that all places take
	Group     string  `yaml:"group"`   // the places are on machines of this group
}

// mostPercent bounds percent.
const mostPercent = 1000

// headroom returns the headroom of the pool, by the file.
func (p Pool) headroom() []api.Headroom {
	var all []api.Headroom
	for _, h := range p.Headroom {
		all = append(all, api.Headroom{
			Name: h.Name, App: h.App, Resources: h.Resources.vector(), Count: h.Count, Percent: h.Percent, Limits: h.Limits.request(), Group: h.Group,
		})
	}
	return all
}

// headroomProblems returns the mistakes of the headroom. The size of a pool without places, and of one whose machines the file does
// not have, is checked when the pool runs.
func (p Pool) headroomProblems() (ps Problems) {
	d, seen := p.document, map[string]bool{}
	if places := p.Autoscaling.Places; len(p.Headroom) > 0 && places != nil && !*places {
		ps = append(ps, d.problem("headroom", "conflicts with autoscaling.places: false: the scheduler finds the free places; remove one of them"))
	}
	if len(p.Headroom) > api.MaxHeadrooms {
		ps = append(ps, d.problem("headroom", fmt.Sprintf("has %d entries: want at most %d", len(p.Headroom), api.MaxHeadrooms)))
	}
	for i, h := range p.Headroom {
		path := fmt.Sprintf("headroom[%d]", i)
		ps = append(ps, nameProblem(d, path+".name", h.Name)...)
		if seen[h.Name] {
			ps = append(ps, d.problem(path+".name", fmt.Sprintf("%q is a duplicate", h.Name)))
		}
		seen[h.Name] = true
		ps = append(ps, h.problems(d, path)...)
		ps = append(ps, p.groupProblem(path+".group", h.Group)...)
		if most, bound := p.mostPlaces(h); h.App == "" && h.Count > most {
			ps = append(ps, d.problem(path+".count", fmt.Sprintf("is %d, but the groups hold at most %d such places within %s: want fewer or smaller places, or a higher maximum", h.Count, most, bound)))
		}
	}
	return ps
}

func (h Headroom) problems(d document, path string) (ps Problems) {
	at := func(key, what string) { ps = append(ps, d.problem(path+"."+key, what)) }
	sized := h.Resources != (Amounts{})
	switch {
	case sized && h.App != "":
		at("resources", "conflicts with app: a place has the size of a copy of the app, or this size; keep one")
	case !sized && h.App == "":
		at("resources", "is missing: want the size of a place, such as {cpus: 1, mem: 1024}, or app")
	}
	if h.Count < 0 || h.Count > api.MaxHeadroom {
		at("count", fmt.Sprintf("is %d: want 0 to %d", h.Count, api.MaxHeadroom))
	}
	if !(h.Percent >= 0 && h.Percent <= mostPercent) {
		at("percent", fmt.Sprintf("is %v: want 0 to %d", h.Percent, mostPercent))
	}
	if h.Count == 0 && h.Percent == 0 {
		at("count", "is missing: want a number of places, or percent")
	}
	ps = append(ps, h.Resources.problems(d, path+".resources")...)
	ps = append(ps, h.Limits.problems(d, path+".limits")...)
	for k, x := range h.Resources.vector() {
		if most, limited := h.Limits.request().Get(resource.Kind(k)); limited && x > most {
			at("limits."+resource.Kind(k).String(), fmt.Sprintf("is %v, less than one place of %v: want at least that", most, x))
		}
	}
	return ps
}

// groupProblem checks the name of a group, if the file names all groups.
func (p Pool) groupProblem(path, group string) Problems {
	var names []string
	for _, g := range p.Groups {
		named, ok := g.Value.(provider.Named)
		if !ok {
			return nil
		}
		names = append(names, named.GroupName())
	}
	if group == "" || slices.Contains(names, group) {
		return nil
	}
	return Problems{p.document.problem(path, fmt.Sprintf("is %q: want one of the groups of the pool, %v", group, names))}
}

// mostPlaces returns how many such places the groups have if no copy runs; MaxInt if the file does not tell. bound names the maximum.
func (p Pool) mostPlaces(h Headroom) (n int, bound string) {
	var kinds []api.PlacesKind
	for _, g := range p.Groups {
		sized, ok := g.Value.(provider.Sized)
		if !ok || p.Limits.Max == nil {
			return math.MaxInt, ""
		}
		if k := sized.Machines(); h.Group == "" || h.Group == k.Group {
			kinds = append(kinds, k)
		}
	}
	return fit.Most(h.Resources.vector(), kinds, float64(*p.Limits.Max)), fmt.Sprintf("their maxima and max_capacity %v", float64(*p.Limits.Max))
}

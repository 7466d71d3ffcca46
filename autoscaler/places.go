package autoscaler

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

const (
	// neverAnswered is Case.NoPlaces for a scheduler that has no such part.
	neverAnswered = "the scheduler of this pool does not answer where copies fit: the target follows the sums of the requests alone"
	// placesTimeout bounds the wait for the scheduler, because the tick waits for it.
	placesTimeout = 2 * time.Second
)

// addPlaces requests from the pool's scheduler where the copies fit, and adds the answer to the case. Without an answer it is
// unknown where they would go: no node is removed. The exception is a pool whose scheduler has never answered. assumed are nodes of
// the scheduler that are away by assumption: the answer lists where their copies go.
func addPlaces(ctx context.Context, now time.Time, world World, config Config, c *api.Case, r apply.Reading, assumed []string) {
	if addScheduler(now, world, c) {
		return
	}
	next := nextMachines(c.State.Groups, config.Machines, r)
	if world.Places == nil || config.IgnorePlaces {
		c.State.PlacesAnswered = false
		return
	}
	gone, aside := outsiders(r)
	q := resolve.Question(*c, next, append(gone, assumed...), aside)
	q.Headroom = config.Headroom
	q.Moves = len(assumed) > 0
	ctx, cancel := world.Limit(ctx, min(placesTimeout, config.stepTimeout()))
	defer cancel()
	answer, err := world.Places(ctx, q)
	switch {
	case err == nil:
		c.State.PlacesAnswered = true
		c.Places = &api.CasePlaces{Places: answer}
		offered(c.Places, c, r)
	case errors.Is(err, ErrNoPlaces) && !c.State.PlacesAnswered:
		c.NoPlaces = neverAnswered
	default:
		c.NoPlaces = decide.OneLine("the scheduler does not answer where copies would go: no machine is removed; autoscaling.places: false ends this: " + err.Error())
		c.Input.NoScaleIn = cmp.Or(c.Input.NoScaleIn, c.NoPlaces)
		c.Refuse = cmp.Or(c.Refuse, c.NoPlaces)
	}
}

// addScheduler adds to the case that the scheduler which speaks for all nodes is not current. Then no node is removed, and it
// receives no question.
func addScheduler(now time.Time, world World, c *api.Case) (unknown bool) {
	if world.NodeScheduler == nil {
		return false
	}
	s := world.NodeScheduler(now)
	if c.State.NodeScheduler = s.Kind; s.Why == "" {
		return false
	}
	c.NoPlaces = decide.OneLine("what the nodes run is unknown, so no machine is removed: " + s.Why)
	c.Input.NoScaleIn, c.Refuse = cmp.Or(c.Input.NoScaleIn, c.NoPlaces), cmp.Or(c.Refuse, c.NoPlaces)
	return true
}

// noHeadroom returns why the free places of the configuration are not kept; nil if they are.
func noHeadroom(config Config, c api.Case) error {
	switch {
	case len(config.Headroom) == 0 || c.Places != nil && len(c.Places.Headroom) > 0:
		return nil
	case c.Places != nil:
		return errors.New("headroom: the scheduler of this pool does not count free places, so none are kept")
	}
	return errors.New("headroom: it is not known which places are free, so none are ordered")
}

// outsiders returns the nodes that are not in a case: the leaving ones, and those in quarantine.
func outsiders(r apply.Reading) (gone, aside []string) {
	leaving := r.Records.Leaving()
	for _, n := range r.Nodes {
		switch id := n.Instance.ID; {
		case leaving[id]:
			gone = append(gone, id)
		case r.Quarantined(id):
			aside = append(aside, id)
		}
	}
	return gone, aside
}

// offered fills in what the joined nodes of the case offer.
func offered(p *api.CasePlaces, c *api.Case, r apply.Reading) {
	sizes := make(map[string]resource.Vector, len(r.Nodes))
	for _, n := range r.Nodes {
		if n.State.Joined() {
			sizes[n.Instance.ID] = n.Facts.Resources
		}
	}
	p.PerWeight = map[string]resource.Vector{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		p.Offered = p.Offered.Add(sizes[n.ID])
		if n.Weight > 0 {
			p.PerWeight[n.Group] = extreme(p.PerWeight[n.Group], sizes[n.ID].Scale(1/n.Weight), 1)
		}
	}
	leave := make(map[string]bool, len(p.Leave))
	for _, id := range p.Leave {
		leave[id] = true
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if size := sizes[n.ID]; leave[n.ID] && !p.PerWeight[n.Group].Scale(n.Weight).Fits(size) {
			if p.Sizes == nil {
				p.Sizes = map[string]resource.Vector{}
			}
			p.Sizes[n.ID] = size
		}
	}
}

// extreme returns the larger value of each kind, or the smaller one if sign is -1.
func extreme(a, b resource.Vector, sign float64) resource.Vector {
	for k := range a {
		if (b[k]-a[k])*sign > 0 {
			a[k] = b[k]
		}
	}
	return a
}

// fewest returns the smaller number of slots; 0 is unknown.
func fewest(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// nextMachines returns the next machine of each group: the smallest and heaviest that a larger target may launch. The first known
// size of a type counts: that of its joined nodes, of nodes that the group had, of the offer, and of the configuration. It updates
// what the groups had.
func nextMachines(states map[string]api.GroupState, configured map[string]resource.Vector, r apply.Reading) map[string]api.Machine {
	joined, overhead := joinedMachines(r), medianOverhead(r)
	out := make(map[string]api.Machine, len(r.Groups))
	for _, g := range r.Groups {
		of := states[g.ID]
		of.Seen = seenMachines(of.Seen, joined[g.ID], g.Offers)
		if _, known := states[g.ID]; known {
			states[g.ID] = of
		}
		out[g.ID] = smallest(of.Seen, g.Offers, overhead, configured[g.ID])
	}
	return out
}

// joinedMachines returns the smallest machine of each type, by group, of the joined healthy nodes. If the provider has changed the size of
// the type, only nodes of the newest size count.
func joinedMachines(r apply.Reading) map[string]map[string]api.SeenMachine {
	out := map[string]map[string]api.SeenMachine{}
	for _, n := range r.Nodes {
		i := n.Instance
		if !n.State.Joined() || n.Unhealthy || r.Quarantined(i.ID) || n.Facts.Resources.IsZero() {
			continue
		}
		if out[i.Group] == nil {
			out[i.Group] = map[string]api.SeenMachine{}
		}
		m, another := out[i.Group][i.Market.InstanceType]
		resized := another && m.Offer != i.Offers && !m.Offer.IsZero() && !i.Offers.IsZero()
		if resized && !i.Launched.After(m.Launched) {
			continue
		}
		if !another || resized {
			m = api.SeenMachine{Machine: api.Machine{Resources: n.Facts.Resources}, Offer: i.Offers}
		}
		m.Resources, m.Weight = extreme(m.Resources, n.Facts.Resources, -1), max(m.Weight, i.Weight)
		if s := n.Facts.Slots; s != nil {
			m.Slots = fewest(m.Slots, s.All)
		}
		if i.Launched.After(m.Launched) {
			m.Launched = i.Launched
		}
		out[i.Group][i.Market.InstanceType] = m
	}
	return out
}

// seenMachines returns the machines that a group has or had, by type. It drops those of types that the provider does not offer
// any more, or offers in another size. Without offers it drops types without a joined node, if a later machine of another type
// has joined. If the newest machine has left, the group may still launch such ones: so it counts, and not the older ones.
func seenMachines(before, joined map[string]api.SeenMachine, offers []pools.Offer) map[string]api.SeenMachine {
	all, newest := maps.Clone(joined), time.Time{}
	for _, m := range joined {
		if m.Launched.After(newest) {
			newest = m.Launched
		}
	}
	for kind, m := range before {
		j, is := joined[kind]
		if is && !m.Launched.After(j.Launched) || !is && len(offers) == 0 && len(joined) > 0 && !m.Launched.After(newest) {
			continue
		}
		if all == nil {
			all = map[string]api.SeenMachine{}
		}
		all[kind] = m
	}
	if len(offers) == 0 {
		return all
	}
	out := map[string]api.SeenMachine{}
	for _, o := range offers {
		for _, m := range []map[string]api.SeenMachine{all, joined, before} {
			one, is := m[o.InstanceType]
			if is && (one.Offer.IsZero() || o.Resources.IsZero()) {
				one.Offer = o.Resources // the provider does not report what this machine has
			}
			if is && one.Offer == o.Resources {
				out[o.InstanceType] = one
				break
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// medianOverhead returns what a joined node of the pool uses for itself, at the median of each kind of resource. A machine that does not exist
// will use as much.
func medianOverhead(r apply.Reading) (median resource.Vector) {
	for k := range median {
		var all []float64
		for _, n := range r.Nodes {
			if n.State.Joined() {
				all = append(all, n.Facts.Overhead[k])
			}
		}
		if slices.Sort(all); len(all) > 0 {
			median[k] = all[len(all)/2]
		}
	}
	return median
}

// smallest returns the smallest value of each kind of resource, with the largest weight, of all machines that a group may launch. Offers do
// not have the overhead of a node.
func smallest(seen map[string]api.SeenMachine, offers []pools.Offer, overhead, configured resource.Vector) (least api.Machine) {
	var all []api.Machine
	for _, kind := range slices.Sorted(maps.Keys(seen)) {
		all = append(all, seen[kind].Machine)
	}
	for _, o := range offers {
		if _, known := seen[o.InstanceType]; !known && o.Resources.Validate() == nil {
			for k, x := range overhead {
				o.Resources[k] = max(o.Resources[k]-x, 0)
			}
			all = append(all, api.Machine{Resources: o.Resources, Weight: o.Weight})
		}
	}
	for _, m := range all {
		least.Weight, least.Slots = max(least.Weight, m.Weight), fewest(least.Slots, m.Slots)
		switch {
		case m.Resources.IsZero(): // unknown
		case least.Resources.IsZero():
			least.Resources = m.Resources
		default:
			least.Resources = extreme(least.Resources, m.Resources, -1)
		}
	}
	if least.Resources.IsZero() {
		least.Resources = configured
	}
	return least
}

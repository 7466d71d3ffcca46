package aws

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/weirkeeper/weirkeeper/pools"
)

// roster is what the rounds found: the pool's groups and their instances.
type roster struct {
	aws *clients
	now func() time.Time

	mu        sync.Mutex
	moment    uint64               // counts beginnings of rounds and ends of writes
	known     map[string]facts     // instances of the last round
	groups    map[string]*group    // all that were ever found
	reclaimed map[string]time.Time // instances that Amazon warned it takes back
}

func newRoster(aws *clients, now func() time.Time) *roster {
	return &roster{aws: aws, now: now, groups: map[string]*group{}, reclaimed: map[string]time.Time{}}
}

// next returns the next moment: what comes later has a greater one.
func (r *roster) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moment++
	return r.moment
}

// keep makes the readings what the groups' snapshots give, unless a round that
// began later was faster, and returns the groups in order of id. New ones are of p.
func (r *roster) keep(began uint64, readings map[string]*reading, p *Provider) []pools.Group {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = make(map[string]facts)
	var groups []pools.Group
	for _, id := range slices.Sorted(maps.Keys(readings)) {
		read := readings[id]
		for _, i := range read.instances {
			r.known[i.ID] = i.facts
		}
		g := r.groups[id]
		if g == nil {
			g = &group{p: p, id: id, turn: make(chan struct{}, 1), own: newOwn()}
			r.groups[id] = g
		}
		if read.Kind == string(SpotFleet) {
			groups = append(groups, fleet{g})
		} else {
			groups = append(groups, scaling{g})
		}
	}
	for id, g := range r.groups {
		g.update(began, readings[id])
	}
	forget(r.reclaimed, r.now(), leaving)
	return groups
}

// fact returns what is known of an instance.
func (r *roster) fact(id string) (facts, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.known[id]
	return f, ok
}

// all returns the groups that were ever found.
func (r *roster) all() []*group {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.groups))
}

// names returns those of the groups of a kind that the last round found.
func (r *roster) names(kind Kind) (names []string) {
	for _, g := range r.all() {
		g.mu.Lock()
		if g.last != nil && g.last.Kind == string(kind) {
			names = append(names, g.id)
		}
		g.mu.Unlock()
	}
	slices.Sort(names)
	return names
}

// attached returns the ARNs of the target groups that the groups' instances are in.
func (r *roster) attached() []string {
	var arns []string
	for _, g := range r.all() {
		arns = append(arns, g.balancers()...)
	}
	slices.Sort(arns)
	return slices.Compact(arns)
}

// enrolled returns the instances of the last round.
func (r *roster) enrolled() map[string]*inspected {
	found := make(map[string]*inspected)
	for _, g := range r.all() {
		g.mu.Lock()
		if g.last != nil {
			for _, i := range g.last.instances {
				_, ended := g.own.ended[i.ID]
				found[i.ID] = &inspected{Inspection: pools.Inspection{ID: i.ID, Leaving: ended}, scaling: g.last.Kind == string(AutoScaling)}
			}
		}
		g.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.reclaimed {
		if i := found[id]; i != nil {
			i.Spot = true
		}
	}
	return found
}

// reclaim notes that Amazon takes instances back.
func (r *roster) reclaim(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.reclaimed[id] = r.now()
	}
}

// Address implements pools.Addresser, of an instance that the last round found. What
// the rounds did not learn of any instance is asked for at once, of all of them.
func (r *roster) Address(ctx context.Context, instance string) (pools.Address, error) {
	f, known := r.fact(instance)
	if known && f.address.IP == "" {
		if err := r.readAddresses(ctx); err != nil {
			return pools.Address{}, fmt.Errorf("address of instance %s: %w", instance, err)
		}
		f, known = r.fact(instance)
	}
	switch {
	case !known:
		return pools.Address{}, fmt.Errorf("address of instance %.40s: pool %s does not have it", instance, r.aws.pool)
	case f.address.IP == "":
		return pools.Address{}, fmt.Errorf("address of instance %s: EC2 has given it none yet", instance)
	}
	return f.address, nil
}

// readAddresses learns the addresses that are not known.
func (r *roster) readAddresses(ctx context.Context) error {
	var without []string
	r.mu.Lock()
	for id, f := range r.known {
		if f.address.IP == "" {
			without = append(without, id)
		}
	}
	r.mu.Unlock()
	slices.Sort(without)
	found := make(map[string]pools.Address)
	for ids := range slices.Chunk(without, filterValues) {
		err := r.aws.instances(ctx, func(i ec2types.Instance) { found[aws.ToString(i.InstanceId)] = factsOf(i).address }, filter("instance-id", ids...))
		if err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, address := range found {
		if f, still := r.known[id]; still {
			f.address = address
			r.known[id] = f
		}
	}
	return nil
}

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

// roster is the result of the reads: the pool's groups and their instances.
type roster struct {
	aws *clients
	now func() time.Time

	mu        sync.Mutex
	moment    uint64               // counts starts of reads and ends of writes
	known     map[string]facts     // instances of the latest read
	groups    map[string]*group    // all groups found so far
	reclaimed map[string]time.Time // instances with an interruption warning
}

func newRoster(aws *clients, now func() time.Time) *roster {
	return &roster{aws: aws, now: now, groups: map[string]*group{}, reclaimed: map[string]time.Time{}}
}

// next returns a number that is greater than that of every earlier event.
func (r *roster) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moment++
	return r.moment
}

// storeReadings stores the readings for the groups' snapshots, unless a read with a later start has already
// ended. It returns the groups in order of id, with the unread ones. p is the provider of new groups.
func (r *roster) storeReadings(began uint64, readings map[string]*reading, unread map[string]error, p *Provider) []pools.Group {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = make(map[string]facts)
	var groups []pools.Group
	ids := slices.AppendSeq(slices.Collect(maps.Keys(readings)), maps.Keys(unread))
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		g := r.groups[id]
		if g == nil {
			g = &group{p: p, id: id, turn: make(chan struct{}, 1), own: newOwn()}
			r.groups[id] = g
		}
		g.update(began, readings[id], unread[id])
		maps.Copy(r.known, g.facts())
		if g.kind() == SpotFleet {
			groups = append(groups, fleet{g})
		} else {
			groups = append(groups, scaling{g})
		}
	}
	for id, g := range r.groups {
		if readings[id] == nil && unread[id] == nil {
			g.update(began, nil, nil) // gone
		}
	}
	forget(r.reclaimed, r.now(), leaving)
	return groups
}

// fact returns the facts of an instance.
func (r *roster) fact(id string) (facts, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.known[id]
	return f, ok
}

// all returns all groups found so far.
func (r *roster) all() []*group {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.groups))
}

// marksOf returns the marks that the latest reading of a group has of an instance.
func (r *roster) marksOf(group, instance string) (stale, cordoned, known bool) {
	r.mu.Lock()
	g := r.groups[group]
	r.mu.Unlock()
	if g == nil {
		return false, false, false
	}
	return g.marksOf(instance)
}

// everRead reports whether a group was read.
func (r *roster) everRead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.groups) > 0
}

// names returns the groups of a kind in the latest read.
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

// attached returns the ARNs of the target groups of all groups.
func (r *roster) attached() []string {
	var arns []string
	for _, g := range r.all() {
		arns = append(arns, g.balancers()...)
	}
	slices.Sort(arns)
	return slices.Compact(arns)
}

// enrolled returns the instances of the latest read.
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

// reclaim records an interruption warning for instances.
func (r *roster) reclaim(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.reclaimed[id] = r.now()
	}
}

// Address implements pools.Addresser for an instance of the latest read. The first call requests
// all unknown addresses at once.
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
		return pools.Address{}, fmt.Errorf("address of instance %.40s: not in pool %s", instance, r.aws.pool)
	case f.address.IP == "":
		return pools.Address{}, fmt.Errorf("address of instance %s: EC2 has not assigned one yet", instance)
	}
	return f.address, nil
}

// readAddresses reads all unknown addresses.
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

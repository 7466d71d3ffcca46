package grpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/grpc/externalgrpc"
)

// expectedTarget is the name of the metadata of a change of the target: the target that the change begins from. A server that
// rejects the change with ABORTED if it has another one carries out each change at most once.
const expectedTarget = "weir-expected-target"

// group is one group of a server.
type group struct {
	server *server
	id     string
	now    func() time.Time
	turn   chan struct{} // held by a write, which reads and writes in one step

	mu          sync.Mutex
	least, most int
	template    template
	templated   bool // template is known
	last        *reading
	unread      error // why the latest read could not read the group
	own         own
}

func newGroup(s *server, id string, now func() time.Time) *group {
	return &group{server: s, id: id, now: now, turn: make(chan struct{}, 1), unread: errors.New("it was not read yet"), own: newOwn()}
}

// ID implements pools.Group.
func (g *group) ID() string { return g.id }

// Snapshot implements pools.Group. It sends a request only after a write.
func (g *group) Snapshot(ctx context.Context) (pools.GroupSnapshot, error) {
	g.mu.Lock()
	last, err := g.last, g.unread
	g.mu.Unlock()
	if err == nil && last == nil {
		last, err = g.look(ctx)
	}
	if err != nil {
		return pools.GroupSnapshot{}, err
	}
	return g.snapshot(last), nil
}

func (g *group) snapshot(r *reading) pools.GroupSnapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := pools.GroupSnapshot{
		ID: g.id, Kind: kind, Target: r.target, Min: g.least, Max: g.most, Short: r.short, Instances: make([]pools.Instance, len(r.instances)),
	}
	if r.short != "" {
		s.ShortAt = g.now()
	}
	for n, i := range r.instances {
		i.Market, i.Offers = pools.Market{InstanceType: g.id}, g.template.whole
		if g.templated {
			i.Market = g.template.market
		}
		s.Instances[n] = i.Instance
	}
	if g.templated {
		s.Offers = []pools.Offer{{InstanceType: g.template.market.InstanceType, Weight: 1, Resources: g.template.new}}
	}
	return s
}

// look reads the group, overlaid with the writes of this process.
func (g *group) look(ctx context.Context) (*reading, error) {
	r, err := g.server.group(ctx, g.id, g.now())
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own.overlay(r, g.now())
	return r, nil
}

// settled reports whether reads show all writes of the target.
func (g *group) settled() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.own.target == nil
}

// update stores the result of a read.
func (g *group) update(r *reading, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.unread = r, err
}

// SetTarget implements pools.Group. It reads the target, and requests the difference. A target below the existing machines lowers
// the server's only to their number. After a change with an unknown result, there is no other one until a read shows the result, for
// at most a minute; meanwhile the error is pools.ErrThrottled.
func (g *group) SetTarget(ctx context.Context, target int) error {
	return g.inTurn(ctx, fmt.Sprintf("set target of group %s to %d", g.id, target), func() error { return g.setTarget(ctx, target) })
}

func (g *group) setTarget(ctx context.Context, target int) error {
	g.mu.Lock()
	least, most := g.least, g.most
	g.mu.Unlock()
	if target < least || target > most {
		return fmt.Errorf("%w: %d to %d", pools.ErrTargetBounds, least, most)
	}
	r, err := g.look(ctx)
	if err != nil {
		return err
	}
	if r.unsure {
		return fmt.Errorf("%w: the result of an earlier change is unknown: wait up to %v for the server to show it", errUnsure, settling)
	}
	if target < r.target {
		target = min(r.target, max(target, r.living()))
	}
	if target == r.target {
		return nil
	}
	err = g.changeTarget(ctx, r.target, target)
	if err == nil || unclear(err) {
		g.wrote(func(o *own) { o.target = &ownTarget{r.target, target, g.now(), err == nil, o.target != nil} })
	}
	if unclear(err) {
		if again, errAgain := g.look(ctx); errAgain == nil && !again.unsure {
			return nil
		}
	}
	return err
}

// errUnsure is a kind of pools.ErrThrottled: it lasts for seconds, and nothing was changed.
var errUnsure = unsureError{}

type unsureError struct{}

func (unsureError) Error() string { return "nothing was changed" }
func (unsureError) Unwrap() error { return pools.ErrThrottled }

// changeTarget requests the difference of two targets.
func (g *group) changeTarget(ctx context.Context, from, to int) error {
	ctx = metadata.AppendToOutgoingContext(ctx, expectedTarget, strconv.Itoa(from))
	s, delta := g.server, int32(to-from) // both are at most maxSize
	if delta < 0 {
		_, err := call(ctx, s, decrease, s.NodeGroupDecreaseTargetSize, &externalgrpc.NodeGroupDecreaseTargetSizeRequest{Id: g.id, Delta: delta})
		return err
	}
	_, err := call(ctx, s, increase, s.NodeGroupIncreaseSize, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: g.id, Delta: delta})
	return err
}

// Terminate implements pools.Group with one call. The server ends all instances, or rejects the call: for example, because the
// target would be below the minimum of the group.
func (g *group) Terminate(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return g.inTurn(ctx, "terminate instances of group "+g.id, func() error { return g.terminate(ctx, ids) })
}

func (g *group) terminate(ctx context.Context, ids []string) error {
	r, err := g.look(ctx)
	if err != nil {
		return err
	}
	victims, err := g.victims(r, ids)
	if err != nil || len(victims) == 0 {
		return err
	}
	in := &externalgrpc.NodeGroupDeleteNodesRequest{Id: g.id}
	for _, v := range victims {
		in.Nodes = append(in.Nodes, &externalgrpc.ExternalGrpcNode{ProviderID: v.address, Name: v.ID})
	}
	_, err = call(ctx, g.server, end, g.server.NodeGroupDeleteNodes, in)
	if err == nil || unclear(err) {
		g.wrote(func(o *own) { o.terminated(victims, g.now(), err == nil) })
	}
	if unclear(err) {
		if again, errAgain := g.look(ctx); errAgain == nil && !slices.ContainsFunc(victims, func(v *instance) bool { return again.lives(v.ID) }) {
			return nil
		}
	}
	return err
}

// victims returns the instances to terminate: each once, and without those that are terminating or gone.
func (g *group) victims(r *reading, ids []string) (all []*instance, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ids = slices.Clone(ids)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		i := r.find(id)
		switch _, had := g.own.listed[id]; {
		case i == nil && !had:
			return nil, fmt.Errorf("%.80q: %w", id, pools.ErrNotOwned)
		case i == nil || i.State == api.InstanceTerminating:
		case g.own.ends(id, false, g.now()):
			return nil, fmt.Errorf("%s: the result of an earlier termination is unknown: wait up to %v for the server to show it", id, settling)
		default:
			all = append(all, i)
		}
	}
	return all, nil
}

// inTurn calls do while no other call writes to the group. It adds what, the attempted action, to an error.
func (g *group) inTurn(ctx context.Context, what string, do func() error) error {
	err := context.Cause(ctx)
	if err == nil {
		select {
		case g.turn <- struct{}{}:
			defer func() { <-g.turn }()
			err = do()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// wrote records a write. The next Snapshot reads the group again.
func (g *group) wrote(change func(*own)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.own)
	if g.unread == nil {
		g.last = nil
	}
}

const (
	// settling is the time after which a call has had its effect, or has none.
	settling = time.Minute
	// leaving is how long a terminated instance may be listed as running, and how long an instance is known after it was listed.
	leaving = 15 * time.Minute
)

// own is the record of this process's writes to a group, until reads show them. It must not be used concurrently.
type own struct {
	target *ownTarget            // nil: reads show it
	ended  map[string]ending     // by node
	listed map[string]appearance // by node
	// readings counts the readings.
	readings uint64
}

// ownTarget is a change of the target.
type ownTarget struct {
	from, to int
	at       time.Time
	sure     bool // it was carried out; false: it may have been, or may be later
	// blind: it began before a read showed the change before it, so that a read may show an older target. Only time ends it.
	blind bool
}

type ending struct {
	at   time.Time
	sure bool // as in ownTarget
}

// appearance is when an instance was first and last listed. gone: the latest reading does not list it.
type appearance struct {
	first, last time.Time
	reading     uint64 // number of the latest one that lists it
	gone        bool
}

func newOwn() own { return own{ended: map[string]ending{}, listed: map[string]appearance{}} }

// terminated records the end of instances.
func (o *own) terminated(victims []*instance, now time.Time, sure bool) {
	for _, v := range victims {
		o.ended[v.ID] = ending{now, sure}
	}
}

// ends reports whether this process has terminated the instance, with that certainty.
func (o *own) ends(node string, sure bool, now time.Time) bool {
	e, ok := o.ended[node]
	return ok && e.sure == sure && (sure || now.Sub(e.at) <= settling)
}

// overlay overlays a reading with the writes, and drops the records that it shows, and old ones.
func (o *own) overlay(r *reading, now time.Time) {
	if t := o.target; t != nil {
		shown := !t.blind && (t.to > t.from && r.target >= t.to || t.to < t.from && r.target <= t.to || t.to == t.from)
		switch {
		case shown || now.Sub(t.at) > settling:
			o.target = nil
		case t.sure: // the server shows an older target
			r.target = t.to
		default:
			r.unsure = true
		}
	}
	o.appear(r, now)
	for n := range r.instances {
		i := &r.instances[n]
		if i.State == api.InstanceTerminating {
			delete(o.ended, i.ID) // the server shows it
		} else if o.ends(i.ID, true, now) {
			i.State = api.InstanceTerminating
		}
	}
	maps.DeleteFunc(o.ended, func(node string, e ending) bool { return o.listed[node].gone || now.Sub(e.at) > leaving })
}

// appear records which instances are listed, and sets the missing launch times. A server may use an id again once its instance is
// gone.
func (o *own) appear(r *reading, now time.Time) {
	o.readings++
	for n := range r.instances {
		i := &r.instances[n]
		a, had := o.listed[i.ID]
		if !had || a.gone {
			a = appearance{first: now}
		}
		a.last, a.reading = now, o.readings
		o.listed[i.ID] = a
		if i.Launched.IsZero() {
			i.Launched = a.first
		}
	}
	for id, a := range o.listed {
		if a.gone = a.reading != o.readings; a.gone {
			o.listed[id] = a
		}
	}
	maps.DeleteFunc(o.listed, func(_ string, a appearance) bool { return now.Sub(a.last) > leaving })
}

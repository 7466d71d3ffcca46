package snapshot

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Scheduler returns the reports of the nodes.
type Scheduler interface {
	// Facts returns the fresh reports. A silent node is absent.
	Facts(now time.Time) []api.NodeFacts
}

// Condition is the report of the node-health policy about the pool.
type Condition struct {
	Unhealthy map[string]string // unhealthy nodes with the reason; it does not change
	Barred    string            // why the pool must not shrink; empty: it may
	// Budget is the pool's disruption budget. Nodes in quarantine are not capacity.
	Budget disruption.Budget
	// Unknown is why the other fields are not known yet; empty: they are known.
	Unknown string
}

// Ports are the inputs of a Reader.
type Ports struct {
	Provider  pools.Provider
	Scheduler Scheduler
	// Health may be nil: no policy. Condition does not wait.
	Health interface{ Condition() Condition }
	Trace  trace.Tracer // nil: steps are not traced
}

// Reader reads the snapshots of one pool.
type Reader struct {
	ports Ports
	// machines is what one machine of a group offers, by the configuration.
	machines map[string]resource.Vector
	began    time.Time       // time of the first snapshot
	first    map[string]bool // instances of the first snapshot that were not pending
	joined   map[string]bool // instances whose node has joined
	sorted   []string        // the same in order; nil: to be made
	// unobserved are those of joined that may have joined, but no process has observed it.
	unobserved map[string]bool
	// reported are the instances whose node has reported to this Reader.
	reported map[string]bool
	gone     int // joined nodes that disappeared since the last Settle
	// interrupted are those of gone that were spot machines, by market, and bought the markets of the joined spot machines.
	interrupted map[string]int
	bought      map[string]string
	// unknown is set if joined was not restored, so that every running instance may have joined.
	unknown bool
	groups  map[string]pools.GroupSnapshot // the last value of each group
	kinds   map[string]string              // of each group that was ever read; snapshots share it
	missing pools.Missing                  // of the last list of groups
	parts   []api.Part                     // of the last snapshot
}

// NewReader returns a Reader without joined nodes.
func NewReader(ports Ports) *Reader {
	return &Reader{ports: ports, joined: map[string]bool{}, unobserved: map[string]bool{}, kinds: map[string]string{}}
}

// Reconfigure sets what one machine of a group offers, by the configuration.
func (r *Reader) Reconfigure(machines map[string]resource.Vector) { r.machines = machines }

// Restore sets the joined nodes of a saved state, with Unobserved and Spot. If nothing was saved, known is false.
func (r *Reader) Restore(s api.PoolState, known bool) {
	r.unknown, r.bought = !known, map[string]string{}
	for market, ids := range s.Spot {
		for _, id := range ids {
			r.bought[id] = market
		}
	}
	r.joined, r.sorted, r.unobserved = make(map[string]bool, len(s.Joined)), nil, make(map[string]bool, len(s.Unobserved))
	for _, id := range s.Joined {
		r.joined[id] = true
	}
	for _, id := range s.Unobserved {
		r.unobserved[id] = true
	}
}

// Save returns s with what Restore reads. The caller must not change the slices, which do not change either.
func (r *Reader) Save(s api.PoolState) api.PoolState {
	if r.sorted == nil {
		r.sorted = slices.Sorted(maps.Keys(r.joined))
	}
	s.Joined, s.Unobserved, s.Spot = r.sorted, slices.Sorted(maps.Keys(r.unobserved)), nil
	for _, id := range slices.Sorted(maps.Keys(r.bought)) {
		if s.Spot == nil {
			s.Spot = map[string][]string{}
		}
		market := r.bought[id]
		s.Spot[market] = append(s.Spot[market], id)
	}
	return s
}

// Read reads all groups concurrently. A group that it cannot read keeps its last value and is unknown; if it has read
// no group yet, this is an error. targets are the targets that the groups were last requested or read with. The end of the released nodes is
// no loss. Read does not change r.
func (r *Reader) Read(ctx context.Context, now time.Time, targets map[string]int, released map[string]bool) (*Snapshot, error) {
	listing, end := r.ports.Trace.Begin(ctx, trace.ListGroups, "")
	found, err := r.ports.Provider.Groups(listing)
	end(err)
	if err != nil {
		return nil, fmt.Errorf("read the groups of the pool: %w", err)
	}
	s := &Snapshot{
		At: now, Starting: r.starting(now), Missing: found.Missing, groups: found.Groups, machines: r.machines, kinds: r.kinds,
	}
	if s.Groups, err = r.readGroups(ctx, now, targets, found); err != nil {
		return nil, err
	}
	s.Parts = r.unknownParts(s, found.Notes)
	if r.ports.Health != nil {
		s.Condition = r.ports.Health.Condition()
	}
	joined, guessed := r.joined, r.unobserved
	if r.unknown {
		joined = s.joinedInstances()
		guessed = joined
	} else if unseen := r.unseen(s); len(unseen) > 0 {
		joined, guessed = maps.Clone(joined), maps.Clone(guessed)
		for id := range unseen {
			if !joined[id] {
				joined[id], guessed[id] = true, true
			}
		}
	}
	// An instance that appeared after the first snapshot had not joined before the process began.
	mayHave := func(id string) bool { return s.Starting && (r.began.IsZero() || r.first[id]) }
	s.joinInstances(r.ports.Scheduler.Facts(now), nil, func(id string) expectation {
		return expectedOf(joined[id], guessed[id] && !r.reported[id] || !joined[id] && mayHave(id))
	})
	s.setJoined(joined, guessed, r.reported, released, r.bought)
	s.Lost += r.gone
	for market, n := range r.interrupted {
		s.Interrupted[market] += n
	}
	return s, nil
}

// unseen returns the instances that appeared while their group could not be read. They may have joined meanwhile.
func (r *Reader) unseen(s *Snapshot) map[string]bool {
	ids := map[string]bool{}
	for _, g := range s.Groups {
		last, read := r.groups[g.ID]
		if g.Unknown != nil || read && last.Unknown == nil || !read && r.missing.Of(g.Kind) == nil {
			continue
		}
		for _, i := range g.Instances {
			known := slices.ContainsFunc(last.Instances, func(old pools.Instance) bool { return old.ID == i.ID && old.State != api.InstancePending })
			if !known && i.State != api.InstancePending {
				ids[i.ID] = true
			}
		}
	}
	return ids
}

// readGroups returns the listed groups, and those that may be missing from the list, in order of id.
func (r *Reader) readGroups(ctx context.Context, now time.Time, targets map[string]int, found pools.Listing) ([]pools.GroupSnapshot, error) {
	out, errs := make([]pools.GroupSnapshot, len(found.Groups)), make([]error, len(found.Groups))
	var wg sync.WaitGroup
	for i, g := range found.Groups {
		wg.Go(func() {
			reading, end := r.ports.Trace.Begin(ctx, trace.ReadGroup, g.ID())
			one, err := g.Snapshot(reading)
			end(err)
			if err == nil {
				err = check(g.ID(), one)
			}
			out[i], errs[i] = one, err
		})
	}
	wg.Wait()
	listed, known := make(map[string]bool, len(out)), false
	for i, g := range found.Groups {
		listed[g.ID()] = true
		kept := true
		if errs[i] != nil {
			out[i], kept = r.unreadable(now, g.ID(), targets, errs[i])
		}
		known = known || kept
	}
	if !known && len(out) > 0 {
		return nil, fmt.Errorf("read group %s: %w", found.Groups[0].ID(), errs[0])
	}
	if len(found.Missing) == 0 {
		return out, nil
	}
	before := slices.AppendSeq(slices.Collect(maps.Keys(r.groups)), maps.Keys(targets))
	slices.Sort(before)
	for _, id := range slices.Compact(before) {
		if why := found.Missing.Of(r.kinds[id]); why != nil && !listed[id] {
			one, _ := r.unreadable(now, id, targets, why)
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b pools.GroupSnapshot) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// unreadable returns the last value of a group that cannot be read. known is false after a restart: only the target is known.
func (r *Reader) unreadable(now time.Time, id string, targets map[string]int, cause error) (last pools.GroupSnapshot, known bool) {
	target, saved := targets[id]
	last, known = r.groups[id]
	if !known {
		last = pools.GroupSnapshot{ID: id, Max: target, NoData: true}
	}
	if saved {
		last.Target = target
	}
	since := now
	if last.Unknown != nil {
		since = last.Unknown.Since
	}
	last.Unknown = &api.Unknown{Since: since, Why: decide.OneLine(cause.Error())}
	return last, known
}

// startTime is how long after its start a Reader counts a node of its first snapshot without a report as silent. Its
// tasks may have been reported to the process before.
const startTime = 30 * time.Second

// unknownParts returns all that could not be read, each with the time since when.
func (r *Reader) unknownParts(s *Snapshot, notes []pools.Note) (out []api.Part) {
	add := func(kind api.PartKind, name string, since time.Time, why string) {
		one := api.Part{Kind: kind, Name: name, State: api.PartUnknown, Since: since, Why: decide.OneLine(why)}
		if i := slices.IndexFunc(r.parts, one.Is); i >= 0 {
			one.Since = r.parts[i].Since
		}
		if !slices.ContainsFunc(out, one.Is) {
			out = append(out, one)
		}
	}
	for _, g := range s.Groups {
		if g.Unknown != nil {
			add(api.PartGroup, g.ID, g.Unknown.Since, g.Unknown.Why)
		}
	}
	for kind, why := range s.Missing {
		add(api.PartList, kind, s.At, why.Error())
	}
	for _, n := range notes {
		add(api.PartFact, n.Part, s.At, n.Error())
	}
	return out
}

// starting reports whether the nodes may not have had time to report yet.
func (r *Reader) starting(now time.Time) bool {
	return r.began.IsZero() || now.Sub(r.began) < startTime
}

// Adopt makes s the snapshot that the next one is compared with.
func (r *Reader) Adopt(s *Snapshot) {
	if r.began.IsZero() {
		r.began, r.first = s.At, s.joinedInstances()
	}
	r.joined, r.sorted, r.unobserved = s.joined, nil, s.unobserved
	r.reported, r.gone, r.unknown, r.missing = s.reported, s.Lost, r.unknown && s.NoData(), s.Missing
	r.parts = s.Parts
	r.interrupted, r.bought = s.Interrupted, s.bought
	r.groups = make(map[string]pools.GroupSnapshot, len(s.Groups))
	r.kinds = maps.Clone(r.kinds) // s has the map before
	for _, g := range s.Groups {
		r.groups[g.ID] = g
		if g.Kind != "" {
			r.kinds[g.ID] = g.Kind
		}
	}
}

// Settle records that a decision considered all losses.
func (r *Reader) Settle() { r.gone, r.interrupted = 0, nil }

// maxWeight is the maximum weight of an instance, so that no sum overflows.
const maxWeight = 1 << 40

// check returns an error for a response that cannot belong to this group.
func check(group string, s pools.GroupSnapshot) error {
	if s.ID != group {
		return fmt.Errorf("the answer is of group %q", s.ID)
	}
	if s.Target < 0 || s.Target > maxWeight {
		return fmt.Errorf("the target is %d: want 0 to %d", s.Target, maxWeight)
	}
	for _, i := range s.Instances {
		switch {
		case i.ID == "":
			return fmt.Errorf("an instance has no id")
		case i.Group != group:
			return fmt.Errorf("instance %s is of group %q", i.ID, i.Group)
		case !(i.Weight >= 0 && i.Weight <= maxWeight):
			return fmt.Errorf("instance %s has the weight %v: want 0 to %d", i.ID, i.Weight, maxWeight)
		}
	}
	return nil
}

package snapshot

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
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
	ports  Ports
	began  time.Time       // time of the first snapshot
	joined map[string]bool // instances whose node has joined
	// reported are the instances whose node has reported to this Reader.
	reported map[string]bool
	gone     int // joined nodes that disappeared since the last Settle
	// unknown is set if joined was not restored, so that every running instance may have joined.
	unknown bool
}

// NewReader returns a Reader without joined nodes.
func NewReader(ports Ports) *Reader {
	return &Reader{ports: ports, joined: map[string]bool{}}
}

// Restore sets the joined nodes. If nothing was saved, known is false.
func (r *Reader) Restore(joined []string, known bool) {
	r.unknown = !known
	r.joined = make(map[string]bool, len(joined))
	for _, id := range joined {
		r.joined[id] = true
	}
}

// Joined returns the instances whose node has joined, sorted.
func (r *Reader) Joined() []string { return slices.Sorted(maps.Keys(r.joined)) }

// Read reads all groups concurrently, and returns an error if it cannot read one of them. The end
// of the released nodes is no loss. Read does not change r.
func (r *Reader) Read(ctx context.Context, now time.Time, released map[string]bool) (*Snapshot, error) {
	listing, end := r.ports.Trace.Begin(ctx, trace.ListGroups, "")
	groups, err := r.ports.Provider.Groups(listing)
	end(err)
	if err != nil {
		return nil, fmt.Errorf("read the groups of the pool: %w", err)
	}
	s := &Snapshot{At: now, Starting: r.starting(now), Groups: make([]pools.GroupSnapshot, len(groups)), groups: groups}
	eg, ctx := errgroup.WithContext(ctx)
	for i, g := range groups {
		eg.Go(func() error {
			reading, end := r.ports.Trace.Begin(ctx, trace.ReadGroup, g.ID())
			one, err := g.Snapshot(reading)
			end(err)
			if err == nil {
				err = check(g.ID(), one)
			}
			if err != nil {
				return fmt.Errorf("read group %s: %w", g.ID(), err)
			}
			s.Groups[i] = one
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, err
	}
	if r.ports.Health != nil {
		s.Condition = r.ports.Health.Condition()
	}
	joined := r.joined
	if r.unknown {
		joined = s.joinedInstances()
	}
	s.joinInstances(r.ports.Scheduler.Facts(now), func(id string) bool { return s.Starting || joined[id] })
	s.setJoined(joined, r.reported, released)
	s.Lost += r.gone
	return s, nil
}

// startTime is how long after its start a Reader counts a node without a report as silent. Its
// tasks may have been reported to the process before.
const startTime = 30 * time.Second

// starting reports whether the nodes may not have had time to report yet.
func (r *Reader) starting(now time.Time) bool {
	return r.began.IsZero() || now.Sub(r.began) < startTime
}

// Adopt makes s the snapshot that the next one is compared with.
func (r *Reader) Adopt(s *Snapshot) {
	if r.began.IsZero() {
		r.began = s.At
	}
	r.joined, r.reported, r.gone, r.unknown = s.joined, s.reported, s.Lost, false
}

// Settle records that a decision considered all losses.
func (r *Reader) Settle() { r.gone = 0 }

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

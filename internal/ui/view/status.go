package view

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/daemon/autoscalerd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/bootstrapd"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Status is the output of "weir status", collected from the ledger, bootstrap and the harmonizer.
type Status struct {
	Cluster  string             `json:"cluster"`
	Pool     string             `json:"pool"`
	Warnings []string           `json:"warnings"` // what needs an operator, first
	LastTick *autoscaler.Record `json:"last_tick,omitempty"`
	// Decided is the last tick that decided, if LastTick did not: it is paused, or
	// has failed. Without one in the last hour it is the plan of the next tick.
	Decided   *autoscaler.Record `json:"last_decision,omitempty"`
	Processes *bootstrapd.Status `json:"processes,omitempty"`
	Counts    *message.Counts    `json:"instance_counts,omitempty"`
	Orders    *pools.Orders      `json:"orders,omitempty"`
	// Nodes are the latest facts of the nodes, as the autoscaler that holds the pool received them.
	Nodes []pools.NodeFacts `json:"nodes,omitempty"`
	// Silent are nodes of the pool whose last two heartbeats are missing.
	Silent []apps.SilentNode `json:"silent_nodes,omitempty"`
	// Health is the first page of "weir node status", if the pool has a policy.
	Health *nodehealth.Status `json:"health,omitempty"`

	Unknown error `json:"-"` // the cluster has no such pool
}

// Pool reads one pool. It may be used concurrently.
type Pool struct {
	Bus           *bus.Bus
	Cluster, Name string
	// Disks returns a warning for each full disk that the reader or bootstrap, if its status is known, reports. It may
	// be nil.
	Disks func(*bootstrapd.Status) []string
}

// Status requests the status of all parts. A part without a response adds a warning.
func (p Pool) Status(ctx context.Context) Status {
	b := p.Bus
	s := Status{Cluster: p.Cluster, Pool: p.Name, Warnings: []string{}}
	warn := s.warn
	first, writable := BusWarnings(ctx, b, p.Cluster)
	if !writable { // most of the rest has no answer either
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Timeout)
		defer cancel()
	}
	if processes, err := Bootstrap(ctx, b, p.Cluster, p.Name); err != nil {
		warn("%v", err)
	} else {
		s.Processes = &processes
		if processes.Refused != "" {
			warn("configuration files rejected, running processes unchanged: %s", processes.Refused)
		}
		for _, process := range append(processes.Signals, processes.Autoscaler) {
			if problem := explain.Process(time.Now(), process); problem != "" {
				warn("%s", problem)
			}
			for one := &process; one != nil; one = one.Candidate {
				if one.Yanked != "" {
					warn("%s runs %s, which is yanked: %s; pin another version in the pool's file", one.Title(), one.Version, one.Yanked)
				}
			}
		}
	}
	if r, err := Last(ctx, b, p.Cluster, p.Name); err != nil {
		if mistake, ok := errors.AsType[*usage.Error](err); ok {
			s.Unknown = mistake
			return s
		}
		warn("%v", err)
	} else {
		s.LastTick = &r
		s.warnOfSilence(time.Now(), r)
		s.warnOfTick(r)
		if r.Case == nil {
			s.Decided = LastDecided(ctx, b, p.Cluster, p.Name)
		}
		if s.Newest() == nil { // as after a long pause
			if now, err := autoscalerd.RequestPlan(ctx, b, p.Cluster, p.Name); err == nil && now.Case != nil && now.Result != nil {
				s.Decided = &now
			}
		}
		if d := s.Newest(); d != nil {
			var held []string
			s.Silent, held = p.silentNodes(ctx, *d)
			s.Warnings = append(s.Warnings, held...)
		}
		s.warnOfNodes(time.Now(), r)
	}
	p.warnOfOrders(ctx, &s)
	p.warnOfHealth(ctx, &s)
	nodes, err := autoscalerd.RequestNodes(ctx, b, p.Cluster, p.Name)
	if err != nil && !errors.Is(err, nats.ErrNoResponders) { // bootstrap reports an autoscaler that does not run
		warn("%v", err)
	}
	s.Nodes = nodes
	s.Warnings = append(s.Warnings, explain.Agents(nodes)...)
	counts, err := Counts(ctx, b.Conn(), p.Cluster, p.Name)
	switch absent, ok := errors.AsType[*AbsentError](err); {
	case ok:
		warn("%v", absent)
	case err != nil:
		warn("%v", err)
	default:
		s.Counts = &counts
		s.warnOfApps(counts, p.crashesOf(ctx, counts))
	}
	p.warnOfPending(ctx, &s)
	var full []string
	if p.Disks != nil {
		full = p.Disks(s.Processes)
	}
	s.Warnings = slices.Concat(full, first, s.Warnings)
	return s
}

// Newest returns the tick with the newest known size of the pool; nil without one.
func (s Status) Newest() *autoscaler.Record {
	if s.LastTick != nil && s.LastTick.Case != nil && s.LastTick.Result != nil {
		return s.LastTick
	}
	return s.Decided
}

// nodeHealth returns a client of the pool's node health.
func (p Pool) nodeHealth() *events.Client {
	return events.NewClient(p.Bus.Conn(), p.Cluster, p.Name)
}

package view

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// Pool reads one pool. It may be used concurrently.
type Pool struct {
	Bus           *bus.Bus
	Cluster, Name string
	// Disks returns a warning for each full disk that the reader or bootstrap, if its status is known, reports. It may
	// be nil.
	Disks func(*api.BootstrapStatus) []string
}

// Status requests the status of all parts. A part without a response adds a warning.
func (p Pool) Status(ctx context.Context) api.PoolStatus {
	b := p.Bus
	s := api.PoolStatus{Cluster: p.Cluster, Pool: p.Name, Warnings: []string{}}
	warn := func(format string, args ...any) { warn(&s, format, args...) }
	first, writable := BusWarnings(ctx, b, p.Cluster, p.Name)
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
		warnOfSilence(&s, time.Now(), r)
		warnOfTick(&s, r)
		if r.Case == nil {
			s.Decided = pastOf(b, p.Cluster, p.Name).LastDecided(ctx, time.Now())
		}
		if s.Newest() == nil { // as after a long pause
			if now, err := RequestPlan(ctx, b, p.Cluster, p.Name); err == nil && now.Case != nil && now.Result != nil {
				s.Decided = &now
			}
		}
		var newest api.TickRecord // zero: no tick decided
		if d := s.Newest(); d != nil {
			newest = *d
		}
		var held []string
		s.Silent, held = p.silentNodes(ctx, newest)
		s.Warnings = append(held, s.Warnings...)
		warnOfNodes(&s, time.Now(), r)
	}
	p.warnOfOrders(ctx, &s)
	p.warnOfHealth(ctx, &s)
	nodes, err := RequestNodes(ctx, b, p.Cluster, p.Name)
	if err != nil && !errors.Is(err, nats.ErrNoResponders) { // bootstrap reports an autoscaler that does not run
		warn("%v", err)
	}
	s.Nodes = nodes
	s.Warnings = append(s.Warnings, explain.Agents(nodes)...)
	found, err := counts(ctx, b.Conn(), p.Cluster, p.Name)
	switch absent, ok := errors.AsType[*AbsentError](err); {
	case ok:
		warn("%v", absent)
	case err != nil:
		warn("%v", err)
	default:
		s.Counts = &found
		warnOfApps(&s, found, p.crashesOf(ctx, found))
	}
	p.warnOfPending(ctx, &s)
	now := time.Now()
	facts := p.Facts(ctx, now)
	var last *api.Summary
	if s.LastTick != nil {
		last = new(history.SummaryOf(*s.LastTick))
	}
	if h, err := Harmonizer(ctx, b, p.Cluster, api.HarmonizerQuery{Totals: true}); err == nil {
		facts.Wrong, facts.Unanswered = WrongLines(h, p.Name), UnansweredLines(now, h, p.Name)
	}
	if h, err := p.Apps(ctx); err == nil {
		addUpdates(&facts, p.Name, h.Apps)
	}
	s.State, s.Conditions = standing(now, last, facts)
	s.Sentence = condition.Sentence(now, last, facts)
	var full []string
	if p.Disks != nil {
		full = p.Disks(s.Processes)
	}
	s.Warnings = slices.Concat(full, first, s.Warnings)
	return s
}

// nodeHealth returns a client of the pool's node health.
func (p Pool) nodeHealth() *events.Client {
	return events.NewClient(p.Bus.Conn(), p.Cluster, p.Name)
}

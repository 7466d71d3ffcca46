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
	s := api.PoolStatus{Cluster: p.Cluster, Pool: p.Name, Warnings: []string{}}
	first, writable := BusWarnings(ctx, p.Bus, p.Cluster, p.Name)
	if !writable { // most of the rest has no answer either
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Timeout)
		defer cancel()
	}
	a := p.askAll(ctx, time.Now())
	addProcesses(&s, a.processes)
	if mistake, ok := errors.AsType[*usage.Error](a.last.err); ok {
		s.Unknown = mistake
		return s
	}
	if a.last.err != nil {
		warn(&s, "%v", a.last.err)
	} else {
		p.addTick(ctx, &s, a.last.value, a.totals)
	}
	addOrders(&s, a.orders)
	addHealth(&s, a.health)
	if a.nodes.err != nil && !errors.Is(a.nodes.err, nats.ErrNoResponders) { // bootstrap reports an autoscaler that does not run
		warn(&s, "%v", a.nodes.err)
	}
	s.Nodes = a.nodes.value
	s.Warnings = append(s.Warnings, explain.Agents(s.Nodes)...)
	if a.counts.err != nil {
		warn(&s, "%v", a.counts.err)
	} else {
		s.Counts = &a.counts.value
		warnOfApps(&s, a.counts.value, a.crashes)
		s.Stopped = stoppedApps(a.apps.value.Apps)
	}
	warnOfPending(&s, a.pending)
	p.addStanding(&s, a)
	var full []string
	if p.Disks != nil {
		full = p.Disks(s.Processes)
	}
	s.Warnings = slices.Concat(full, first, s.Warnings)
	return s
}

// addProcesses adds the processes of the pool, and what is wrong with them.
func addProcesses(s *api.PoolStatus, processes answer[api.BootstrapStatus]) {
	if processes.err != nil {
		warn(s, "%v", processes.err)
		return
	}
	s.Processes = &processes.value
	if s.Processes.Refused != "" {
		warn(s, "configuration files rejected, running processes unchanged: %s", s.Processes.Refused)
	}
	for _, process := range append(s.Processes.Signals, s.Processes.Autoscaler) {
		if problem := explain.Process(time.Now(), process); problem != "" {
			warn(s, "%s", problem)
		}
		for one := &process; one != nil; one = one.Candidate {
			if one.Yanked != "" {
				warn(s, "%s runs %s, which is yanked: %s; pin another version in the pool's file", one.Title(), one.Version, one.Yanked)
			}
		}
	}
}

// addTick adds the last tick, and what has been decided since the last one that decided.
func (p Pool) addTick(ctx context.Context, s *api.PoolStatus, r api.TickRecord, totals answer[api.HarmonizerStatus]) {
	s.LastTick = &r
	warnOfSilence(s, time.Now(), r)
	warnOfTick(s, r)
	if r.Case == nil {
		s.Decided = pastOf(p.Bus, p.Cluster, p.Name).LastDecided(ctx, time.Now())
	}
	if s.Newest() == nil { // as after a long pause
		if now, err := requestPlan(ctx, p.Bus, p.Cluster, p.Name); err == nil && now.Case != nil && now.Result != nil {
			s.Decided = &now
		}
	}
	var newest api.TickRecord // zero: no tick decided
	if d := s.Newest(); d != nil {
		newest = *d
	}
	if totals.err == nil { // otherwise the counts have the warning that the harmonizer does not answer
		s.Silent = silentNodes(totals.value, p.Name, newest)
		s.Warnings = append(heldLines(totals.value, p.Name), s.Warnings...)
	}
	warnOfNodes(s, time.Now(), r)
}

// addStanding adds how the pool stands.
func (p Pool) addStanding(s *api.PoolStatus, a allParts) {
	now := time.Now()
	facts := a.facts(now)
	var last *api.Summary
	if s.LastTick != nil {
		last = new(history.SummaryOf(*s.LastTick))
	}
	if a.totals.err == nil {
		facts.Wrong, facts.Unanswered, facts.Refused = WrongLines(a.totals.value, p.Name), UnansweredLines(now, a.totals.value, p.Name), RefusedLines(a.totals.value, p.Name)
	}
	if a.apps.err == nil {
		addUpdates(&facts, p.Name, a.apps.value.Apps)
	}
	s.State, s.Conditions = standing(now, last, facts)
	s.Sentence = condition.Sentence(now, last, facts)
}

// nodeHealth returns a client of the pool's node health.
func (p Pool) nodeHealth() *events.Client {
	return events.NewClient(p.Bus.Conn(), p.Cluster, p.Name)
}

// stoppedApps returns the names of the applications that are stopped by their row.
func stoppedApps(all []api.AppSummary) (names []string) {
	for _, one := range all {
		if one.State == api.AppStopped {
			names = append(names, one.Name)
		}
	}
	return names
}

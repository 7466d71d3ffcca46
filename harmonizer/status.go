package harmonizer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/report"
)

const (
	// statusLimit bounds the lists of a Status, so that it fits in a bus message.
	statusLimit = 1000
	nodesLimit  = 4000 // nodes of a Status
	silentLimit = 100  // silent nodes, unanswered requests, and halted updates, in a Status
)

// labelValues bounds the values of one label that have sums: the first in order.
const labelValues = 100

// Counts implements Handler.
func (h *Harmonizer) Counts(ctx context.Context, pool string) (api.InstanceCounts, error) {
	if h.cfg.Shadow {
		return api.InstanceCounts{}, ErrShadow
	}
	var c api.InstanceCounts
	err := h.call(ctx, func(now time.Time) { c = h.never.without(h.machine.View().Counts(now, pool)) })
	return c, err
}

// Status implements Handler.
func (h *Harmonizer) Status(ctx context.Context, q api.HarmonizerQuery) (api.HarmonizerStatus, error) {
	var s api.HarmonizerStatus
	err := h.call(ctx, func(now time.Time) { s = h.status(now, q) })
	return s, err
}

func (h *Harmonizer) status(now time.Time, q api.HarmonizerQuery) api.HarmonizerStatus {
	s := api.HarmonizerStatus{
		At:              now,
		Counters:        h.allCounters(),
		Leading:         h.Leading(),
		DisruptionLimit: h.machine.View().DisruptionLimit(),
		Queue:           h.queue(),

		Unwritten: h.outbox.since(),
	}
	silent := h.machine.View().Silent()
	s.Silent, s.SilentNodes = silent[:min(len(silent), silentLimit)], len(silent)
	wrong := h.machine.View().WrongSenders()
	s.Wrong, s.WrongSenders = wrong[:min(len(wrong), silentLimit)], len(wrong)
	halted := h.machine.View().Halted()
	s.Halted, s.HaltedApps = halted[:min(len(halted), silentLimit)], len(halted)
	if h.watched != nil {
		all := h.noRows.refused(h.machine.View().Apps(), h.watched.unanswered(h.machine.View().PoolOf))
		s.Unanswered, s.UnansweredApps = all[:min(len(all), silentLimit)], len(all)
	}
	s.Complete, s.Why = h.machine.View().Complete()
	s.Repairing = !s.Complete && h.machine.View().Repairing()
	if h.ports.Lease != nil && !h.cfg.Shadow {
		s.Epoch, s.Leader, s.NoLeader = h.ports.Lease.Epoch(), h.leader(), h.noLeader.alarm(now)
	}
	if h.comparer != nil {
		s.Shadow = h.comparer.Status()
	}
	switch {
	case q.App != "":
		if e, ok := h.machine.View().Explain(now, q.App); ok {
			s.App, s.Omitted = &e, e.Omitted
			if q.Crashes {
				s.Crashes = h.machine.View().Crashes(q.App)
			}
		}
	case q.Totals:
		s.Totals = h.totals()
	case q.Nodes != "":
		all := h.nodesOf(q.Nodes)
		s.Nodes = all[:min(len(all), nodesLimit)]
		s.Omitted = len(all) - len(s.Nodes)
	default:
		all := h.machine.View().Apps()
		s.Apps = all[:min(len(all), statusLimit)]
		s.Omitted = len(all) - len(s.Apps)
	}
	return s
}

// nodesOf returns the living nodes of a pool, in order of name.
func (h *Harmonizer) nodesOf(pool string) (nodes []api.HarmonizerNode) {
	for node, copies := range h.machine.View().Nodes() {
		if node.Pool == pool {
			nodes = append(nodes, api.HarmonizerNode{Node: node.Name, Copies: copies})
		}
	}
	slices.SortFunc(nodes, func(a, b api.HarmonizerNode) int { return cmp.Compare(a.Node, b.Node) })
	return nodes
}

func (h *Harmonizer) allCounters() map[string]uint64 {
	out := h.counters.snapshot()
	for c, n := range h.found {
		out["found_"+string(c.kind)] += n
		if c.why != "" {
			out["found_"+string(c.kind)+"."+string(c.why)] += n
		}
	}
	return out
}

func (h *Harmonizer) queue() api.NudgeQueue {
	var q api.NudgeQueue
	q.Starts, q.Stops = h.machine.View().Queued()
	q.Send, q.Save = h.outbox.waiting()
	return q
}

func (h *Harmonizer) totals() *api.HarmonizerTotals {
	t := &api.HarmonizerTotals{Labels: map[string]map[string]api.PoolTotals{}}
	t.Pools, t.All = h.machine.View().Totals()
	for _, label := range h.cfg.Labels {
		sums := h.machine.View().Sums(label)
		for _, value := range slices.Sorted(maps.Keys(sums))[min(len(sums), labelValues):] {
			delete(sums, value)
		}
		t.Labels[label] = sums
	}
	return t
}

// Report implements Handler.
func (h *Harmonizer) Report(ctx context.Context, subject string, data []byte) ([][]byte, error) {
	evaluate, bad := report.Read(subject, data)
	var answers []any
	err := h.call(ctx, func(now time.Time) {
		h.counters.add(report.Counter(subject), 1)
		if h.recording != nil {
			h.recording.writeRequest(subject, data)
		}
		if bad == nil && h.Leading() {
			answers = evaluate(h.machine.View(), now)
		}
	})
	if err = errors.Join(err, bad); err != nil {
		return nil, fmt.Errorf("report on %.100q: %w", subject, err)
	}
	var out [][]byte
	for _, a := range answers {
		data, err := json.Marshal(a)
		if err != nil {
			return nil, fmt.Errorf("report on %s: %w", subject, err)
		}
		out = append(out, data)
	}
	return out, nil
}

// Order implements Handler.
func (h *Harmonizer) Order(ctx context.Context, o api.HarmonizerOrder) error {
	switch o.Op {
	case api.OpReleaseLimit:
		return h.Release(ctx)
	case api.OpRetry:
		index := -1
		if o.Index != nil {
			index = *o.Index
		}
		return h.Retry(ctx, o.App, index)
	}
	return fmt.Errorf("order %q is unknown; use %s or %s", o.Op, api.OpReleaseLimit, api.OpRetry)
}

// Release ends the hold of the disruption limit. It returns ErrNotLeading while another
// harmonizer leads, and ErrNothing if nothing is held.
func (h *Harmonizer) Release(ctx context.Context) error {
	return h.order(ctx, "release the disruption limit", func(now time.Time) error {
		if !h.machine.View().DisruptionLimit().On() {
			return ErrNothing
		}
		h.step(now, apps.Release{})
		return nil
	})
}

// Retry starts an index of an app, or all with -1, regardless of its crashes. It returns
// ErrNotLeading while another harmonizer leads, and ErrNothing if no instance crashed
// recently.
func (h *Harmonizer) Retry(ctx context.Context, app string, index int) error {
	return h.order(ctx, "retry "+app, func(now time.Time) error {
		if _, ok := h.machine.View().Explain(now, app); !ok {
			return errors.New("the app is unknown; weir app status lists the apps")
		}
		switch known, crashed := h.machine.View().Crashed(app, index); {
		case !known:
			return fmt.Errorf("the app has no index %d; weir app explain lists the indices", index)
		case !crashed:
			return ErrNothing
		}
		h.step(now, apps.Retry{App: app, Index: index})
		return nil
	})
}

// Alive returns nil when the loop responds. It waits at most until ctx ends.
func (h *Harmonizer) Alive(ctx context.Context) error { return h.call(ctx, func(time.Time) {}) }

func (h *Harmonizer) order(ctx context.Context, what string, f func(now time.Time) error) error {
	var refused error
	err := h.call(ctx, func(now time.Time) {
		if refused = h.refusal(); refused == nil {
			h.log.Info("order received", "order", what)
			refused = f(now)
		}
	})
	if err = errors.Join(err, refused); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (h *Harmonizer) refusal() error {
	switch {
	case h.cfg.Shadow:
		return ErrShadow
	case h.Leading():
		return nil
	}
	if h.ports.Lease != nil {
		if holder := h.leader(); holder != "" {
			return fmt.Errorf("%w; the leader is %s", ErrNotLeading, holder)
		}
	}
	return ErrNotLeading
}

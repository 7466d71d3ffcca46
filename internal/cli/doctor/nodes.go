package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
)

// agents checks the nodes that the autoscaler has facts of: silent ones, their clocks, and two machines or agents with one id.
func (s Site) agents(ctx context.Context, b *bus.Bus) []Finding {
	report, err := view.RequestNodesReport(ctx, b, s.Bus.Cluster, s.Bus.Pool)
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return notPermitted(err)
	case err != nil:
		return []Finding{{Result: Unknown, Detail: err.Error(), Fix: "start bootstrap; its autoscaler has the facts of the nodes"}}
	case len(report.Nodes) == 0:
		return []Finding{{Result: Warned, Detail: "no node of the pool reports", Fix: `start "weir agent" on the machines of the pool, or see "weir status"`}}
	}
	if r, err := view.Last(ctx, b, s.Bus.Cluster, s.Bus.Pool); err == nil {
		report = withoutEnded(report, partsOf(time.Now(), r).nodes)
	}
	return ofNodes(report)
}

// withoutEnded leaves out the silent nodes that the pool no longer has, by its newest tick: Weirkeeper ended them.
func withoutEnded(report api.NodesReport, has parts) api.NodesReport {
	if has.unknown == "" {
		report.Receipts = slices.DeleteFunc(slices.Clone(report.Receipts), func(r api.NodeReceipt) bool { return r.Silent && !has.names[r.Node] })
	}
	return report
}

// ofNodes returns a finding for each kind of problem, and one if there is no problem.
func ofNodes(report api.NodesReport) (all []Finding) {
	var silent, slow, fast, twins, rivals, unknown []string
	for _, f := range report.Nodes {
		for _, c := range f.Conditions {
			if c.Unknown {
				unknown = append(unknown, fmt.Sprintf("%s: %s: %s", f.ID, c.Type, c.Why))
			}
		}
		if f.Rival != "" {
			rivals = append(rivals, fmt.Sprintf("%s: %s", f.ID, f.Rival))
		}
	}
	for _, r := range report.Receipts {
		switch {
		case r.Silent:
			silent = append(silent, fmt.Sprintf("%s for %v", r.Node, r.Age.Round(time.Second)))
		case r.Ahead >= bus.SkewWarned:
			fast = append(fast, fmt.Sprintf("%s by %v", r.Node, r.Ahead.Round(time.Millisecond)))
		case -r.Ahead >= bus.SkewWarned: // with the time in transit
			slow = append(slow, fmt.Sprintf("%s by %v", r.Node, -r.Ahead.Round(time.Millisecond)))
		}
		if !r.Twins.IsZero() {
			twins = append(twins, fmt.Sprintf("%s at %s", r.Node, explain.Time(r.Twins)))
		}
	}
	add := func(result Result, names []string, detail, fix string) {
		if len(names) > 0 {
			all = append(all, Finding{Result: result, Detail: fmt.Sprintf("%d %s: %s", len(names), detail, list(names)), Fix: fix})
		}
	}
	add(Failed, twins, "ids are used by two machines", "give each machine an id of its own (--id of \"weir agent\"), or end the other machine")
	add(Failed, rivals, "ids have a second agent, which is refused", "stop that agent, or give its machine another id")
	add(Failed, silent, "nodes are silent", `check the machines and the logs of "weir agent" there`)
	add(Warned, unknown, "conditions of nodes have no current result", `correct what each names; the logs of "weir agent" there have more`)
	add(Warned, fast, "clocks are ahead of that of the autoscaler's host", clockFix)
	add(Warned, slow, "clocks are behind that of the autoscaler's host, or their messages are late", clockFix)
	if all == nil {
		all = []Finding{{Result: OK, Detail: fmt.Sprintf("%d nodes report, with one machine for each id and the clock of the autoscaler's host", len(report.Nodes))}}
	}
	return all
}

// scheduler checks the placer of the pool and the harmonizer of the cluster.
func (s Site) scheduler(ctx context.Context, b *bus.Bus) []Finding {
	return append(s.placer(ctx, b), s.harmonizer(ctx, b)...)
}

func (s Site) placer(ctx context.Context, b *bus.Bus) []Finding {
	pending, err := placerbus.GetPending(ctx, b.Conn(), s.Bus.Cluster, s.Bus.Pool)
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return notPermitted(err)
	case errors.Is(err, nats.ErrNoResponders):
		return []Finding{{Result: Warned, Detail: "no placer of the pool answers: only another scheduler can start instances",
			Fix: `start "weir placer", or the scheduler of the pool`}}
	case err != nil:
		return []Finding{{Result: Unknown, Detail: err.Error(), Fix: "check the process of the placer and its log"}}
	}
	return ofPending(time.Now(), pending)
}

// ofPending returns the findings about the scheduler that answered: the problems that it reports, and the work that waits.
func ofPending(now time.Time, pending api.Pending) (all []Finding) {
	for _, line := range pending.State.ProblemLines() {
		all = append(all, Finding{Result: Warned, Detail: line, Fix: `correct what it names; "weir status" shows it too`})
	}
	return append(all, ofWaits(now, pending))
}

func ofWaits(now time.Time, pending api.Pending) Finding {
	name := "the placer"
	if s := pending.State; s != nil && !s.Rows {
		name = fmt.Sprintf("the scheduler (%.64q)", s.Kind)
		if !s.Fresh {
			return Finding{Result: Failed, Detail: fmt.Sprintf("%s answers, and has no current state of its nodes: %.200q; no machine is removed or repaired for silence", name, s.Why),
				Fix: "see the log of that scheduler, and the server of its cluster"}
		}
	}
	if pending.Total > 0 && len(pending.Copies) > 0 {
		oldest := pending.Copies[0]
		return Finding{Result: Warned, Detail: fmt.Sprintf("%s answers; %s without room, %s/%d for %s", name, prose.Count(pending.Total, "instance"),
			oldest.App, oldest.Index, condition.Duration(now.Sub(oldest.Since))), Fix: `see "weir status" and the limits of the pool`}
	}
	return Finding{Result: OK, Detail: name + " of the pool answers, and no instance waits for room"}
}

func (s Site) harmonizer(ctx context.Context, b *bus.Bus) []Finding {
	query, err := json.Marshal(api.HarmonizerQuery{Totals: true})
	if err != nil {
		return []Finding{{Result: Unknown, Detail: err.Error(), Fix: "report this error"}}
	}
	m, err := bus.Request(ctx, b.Conn(), message.StatusSubject(s.Bus.Cluster), query)
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return notPermitted(err)
	case errors.Is(err, nats.ErrNoResponders):
		return []Finding{{Result: Warned, Detail: "no harmonizer of the cluster answers: lost instances are not started again", Fix: `start "weir harmonizer"`}}
	case err != nil:
		return []Finding{{Result: Unknown, Detail: err.Error(), Fix: "check the process of the harmonizer and its log"}}
	}
	var status api.HarmonizerStatus
	if err := json.Unmarshal(m.Data, &status); err != nil {
		return []Finding{{Result: Unknown, Detail: fmt.Sprintf("response of the harmonizer: %v", err), Fix: "upgrade the older one of harmonizer and doctor"}}
	}
	return ofHarmonizer(time.Now(), status, s.Bus.Pool)
}

// ofHarmonizer returns the findings about a harmonizer and its requests to the scheduler of a pool.
func ofHarmonizer(now time.Time, status api.HarmonizerStatus, pool string) (all []Finding) {
	for _, why := range status.Unready() {
		all = append(all, Finding{Result: Failed, Detail: why, Fix: `check the checks of the bus above, and "weir harmonizer" and its log`})
	}
	if !status.Complete {
		all = append(all, Finding{Result: Warned, Detail: "the harmonizer stops nothing, its state is incomplete: " + status.Why, Fix: `see "weir app status"`})
	}
	if f, ok := unanswered(now, status, pool); ok {
		all = append(all, f)
	}
	if all == nil {
		all = []Finding{{Result: OK, Detail: fmt.Sprintf("the harmonizer answers; %d starts and %d stops wait", status.Queue.Starts, status.Queue.Stops)}}
	}
	return all
}

// unanswered returns a finding if no scheduler of the pool confirmed requests of the harmonizer in time. An application
// without a row has no pool, and counts for each.
func unanswered(now time.Time, status api.HarmonizerStatus, pool string) (Finding, bool) {
	var names []string
	for _, u := range status.Unanswered {
		if u.Pool != "" && u.Pool != pool {
			continue
		}
		what := "starts"
		if u.Kind != "" {
			return Finding{Result: Failed, Detail: fmt.Sprintf("application %.80q does not run: %s", u.App, api.NoRowsText(u.Pool, u.Kind)),
				Fix: "\"weir app delete\", or \"weir app set\" with another pool"}, true
		}
		if u.Stop {
			what = "stops"
		}
		names = append(names, fmt.Sprintf("%s of %.80q for %v", what, u.App, now.Sub(u.Since).Round(time.Second)))
	}
	if len(names) == 0 {
		return Finding{}, false
	}
	return Finding{Result: Failed, Detail: "no scheduler answers the harmonizer's requests for " + list(names),
		Fix: fmt.Sprintf("start \"weir placer %s\" or the scheduler of the pool, or see its log", pool)}, true
}

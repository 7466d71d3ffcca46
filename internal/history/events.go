package history

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Stream turns the summaries of one pool, in their order, into events. A zero one has no messages: see Pool.Events.
type Stream struct {
	pool   Pool
	stored *state.Ledger // unpacks live summaries
	ticks  Sequence
}

// Events returns the events of the pool, from no tick on.
func (p Pool) Events(ctx context.Context) (*Stream, error) {
	stored, err := state.OpenSummaries(ctx, p.JS, p.Cluster, p.Pool)
	if err != nil {
		return nil, err
	}
	return &Stream{pool: p, stored: stored}, nil
}

// Last returns when the newest tick began; zero: no tick yet.
func (s *Stream) Last() time.Time { return s.ticks.Last() }

// orderOf returns the kind of an order whose change is c; empty: no operator ordered it.
func orderOf(c api.Change) string {
	kind, _, _ := strings.Cut(c.What, " of ")
	switch api.OrderKind(kind) {
	case "pause", api.OrderOffset, api.OrderPin, api.OrderRemoval, api.OrderRoll:
		return kind
	}
	return ""
}

// Add returns the events of the next tick. It ignores a dry run, and a tick that it has had before.
func (s *Stream) Add(next api.Summary) (out []api.Event) {
	if next.DryRun || !next.At.After(s.ticks.Last()) {
		return nil
	}
	moved := next.Acted()
	rest := []api.Change{}
	for _, c := range s.ticks.Next(next) {
		if kind := orderOf(c); kind != "" {
			out = append(out, api.Event{At: next.At, Kind: api.EventOrdered, Pool: next.Pool, Name: kind, Severity: api.SeverityInfo, Text: c.String(), Data: c})
		} else {
			rest = append(rest, c)
		}
	}
	if !moved && len(rest) == 0 {
		return out
	}
	e := api.Event{At: next.At, Kind: api.EventDecision, Pool: next.Pool, Name: "changed", Severity: api.SeverityInfo, Data: rest}
	var texts []string
	for _, c := range rest {
		texts = append(texts, c.String())
	}
	switch {
	case next.Failed != "":
		e.Name, e.Severity = "failed", api.SeverityError
	case moved:
		e.Name = "target"
		for _, a := range next.Actions {
			text := fmt.Sprintf("%s %s", a.Op, a.Group)
			if a.Target != 0 {
				text += fmt.Sprintf(" to %d", a.Target)
			}
			if a.Failed > 0 {
				e.Severity = api.SeverityWarning
				text += fmt.Sprintf(" (%d of %d failed: %s)", a.Failed, a.Calls, a.Error)
			}
			texts = append(texts, text)
		}
	}
	if next.Why != "" {
		texts = append(texts, fmt.Sprintf("%s: %s", next.Rule, next.Why))
	}
	e.Text = strings.Join(texts, "; ")
	return append(out, e)
}

// lead is the time before a range in which ticks are read, to compare the first tick of the range with the one before.
const lead = 10 * time.Minute

// EventsBetween calls visit with the events of each time from from until to, both included, oldest first: those of a tick,
// or the findings of one message. It returns how many summaries and messages this weir cannot read. If the findings cannot
// be read, it visits the other events, and then returns the error.
func (p Pool) EventsBetween(ctx context.Context, from, to time.Time, visit func(at time.Time, events []api.Event) error) (unreadable int, err error) {
	return (&Stream{pool: p}).Between(ctx, from, to, visit)
}

// Between is Pool.EventsBetween. Add and Decode then return the events of later ticks.
func (s *Stream) Between(ctx context.Context, from, to time.Time, visit func(at time.Time, events []api.Event) error) (unreadable int, err error) {
	p := s.pool
	var broken int
	var away error
	next, stop := iter.Pull2(func(yield func(time.Time, []api.Event) bool) {
		broken, away = p.findings(ctx, from, to, yield)
	})
	defer stop()
	at, found, more := next()
	until := func(t time.Time) error { // visits the findings before t
		for more && at.Before(t) {
			if err := visit(at, found); err != nil {
				return err
			}
			at, found, more = next()
		}
		return nil
	}
	unreadable, err = p.summaries(ctx, from.Add(-lead), to, func(tick api.Summary) error {
		events := s.Add(tick)
		if tick.At.Before(from) {
			return nil
		}
		if err := until(tick.At); err != nil {
			return err
		}
		return visit(tick.At, events)
	})
	if err == nil {
		err = until(to.Add(time.Nanosecond))
	}
	stop()
	if err == nil {
		err = away
	}
	return unreadable + broken, unlessStopped(err)
}

// findings yields the stored findings of the pool and of the harmonizer.
func (p Pool) findings(ctx context.Context, from, to time.Time, yield func(time.Time, []api.Event) bool) (unreadable int, err error) {
	err = state.FindingsSince(ctx, p.JS, p.Cluster, from, func(m state.StoredFinding) error {
		if m.At.After(to) {
			return ErrStop
		}
		if !slices.Contains(p.Subjects()[1:], m.Subject) {
			return nil // of another pool
		}
		events, err := FindingEvents(p.Cluster, m.At, &nats.Msg{Subject: m.Subject, Data: m.Data})
		if err != nil {
			unreadable++
			return nil
		}
		if len(events) > 0 && !yield(m.At, events) {
			return ErrStop
		}
		return nil
	})
	return unreadable, unlessStopped(err)
}

// Subjects returns the subjects on which events of a pool are published live.
func (p Pool) Subjects() []string {
	return []string{state.SummarySubject(p.Cluster, p.Pool), events.EventsSubject(p.Cluster, p.Pool), message.EventsSubject(p.Cluster)}
}

// Tick returns the summary of a message that arrived on the first of Subjects.
func (s *Stream) Tick(ctx context.Context, m *nats.Msg) (api.Summary, error) {
	data, err := s.stored.Published(ctx, m)
	if err != nil {
		return api.Summary{}, err
	}
	return ReadSummary(data)
}

// Decode returns the events of a message that arrived on one of Subjects. now is the time of a finding without a time.
func (s *Stream) Decode(ctx context.Context, now time.Time, m *nats.Msg) ([]api.Event, error) {
	p := s.pool
	if m.Subject == state.SummarySubject(p.Cluster, p.Pool) {
		next, err := s.Tick(ctx, m)
		if err != nil {
			return nil, err
		}
		return s.Add(next), nil
	}
	return FindingEvents(p.Cluster, now, m)
}

// FindingEvents returns the events of a message with findings: of node health of a pool, or of the harmonizer. now is the
// time of a finding without a time.
func FindingEvents(cluster string, now time.Time, m *nats.Msg) ([]api.Event, error) {
	if m.Subject == message.EventsSubject(cluster) {
		return harmonizerEvents(now, m.Data)
	}
	before, after, _ := strings.Cut(events.EventsSubject(cluster, "*"), "*")
	pool, ok := strings.CutPrefix(m.Subject, before)
	if pool = strings.TrimSuffix(pool, after); !ok || !names.Valid(pool) {
		return nil, fmt.Errorf("read findings: subject %.100q is none of cluster %s", m.Subject, cluster)
	}
	var list []api.HealthNotification
	if err := json.Unmarshal(m.Data, &list); err != nil {
		return nil, fmt.Errorf("read findings of node health: %w", err)
	}
	var out []api.Event
	for _, n := range list {
		out = append(out, api.Event{At: n.At, Kind: api.EventNodeHealth, Pool: pool, Name: string(n.Event), Severity: judge.SeverityOf(n.Event), Text: n.String(), Data: n})
	}
	return out, nil
}

// harmonizerEvents returns the events of a message of the harmonizer, which are those of all pools.
func harmonizerEvents(now time.Time, data []byte) ([]api.Event, error) {
	var list []api.AppFinding
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read findings of the harmonizer: %w", err)
	}
	var out []api.Event
	for _, f := range list {
		out = append(out, api.Event{At: now, Kind: api.EventHarmonizer, Pool: "", Name: string(f.Kind), Severity: apps.SeverityOf(f.Kind), Text: f.String(), Data: f})
	}
	return out, nil
}

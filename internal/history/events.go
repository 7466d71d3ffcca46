package history

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Events returns the events of the tick: a changed configuration, a part each, an order each, and a decision with all other changes. A dry run, and a tick that is
// not newer than the one before, cause no events.
func (t ComparedTick) Events() (out []api.Event) {
	if t.DryRun || t.repeated {
		return nil
	}
	if c := t.Configuration; c != nil {
		out = append(out, configurationEvent(t.Summary, *c))
	}
	for _, p := range t.Parts {
		e := api.Event{At: t.At, Kind: api.EventPart, Pool: t.Pool, Name: string(p.State), Severity: api.SeverityWarning, Text: p.String(), Data: p}
		if p.State == api.PartKnown {
			e.Severity = api.SeverityInfo
		}
		out = append(out, e)
	}
	rest := []api.Change{}
	for _, c := range t.Changes {
		if c.Order != "" {
			out = append(out, api.Event{At: t.At, Kind: api.EventOrdered, Pool: t.Pool, Name: string(c.Order), Severity: api.SeverityInfo, Text: c.String(), Data: c})
		} else {
			rest = append(rest, c)
		}
	}
	if !t.Acted() && len(rest) == 0 {
		return out
	}
	e := api.Event{At: t.At, Kind: api.EventDecision, Pool: t.Pool, Name: "changed", Severity: api.SeverityInfo, Data: rest}
	var texts []string
	for _, c := range rest {
		texts = append(texts, c.String())
		if strings.HasPrefix(c.What, releaseEntry) && c.To != "" {
			e.Severity = api.SeverityWarning
		}
		if c.What == rotationEntry && t.Rotation != nil && len(t.Rotation.Alarms) > 0 {
			e.Severity = api.SeverityWarning
		}
	}
	switch {
	case t.Failed != "":
		e.Name, e.Severity = "failed", api.SeverityError
	case t.Acted():
		e.Name = "target"
		for _, a := range t.Actions {
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
	if t.Why != "" {
		texts = append(texts, fmt.Sprintf("%s: %s", t.Rule, t.Why))
	}
	e.Text = strings.Join(texts, "; ")
	return append(out, e)
}

// configurationEvent returns the event of a changed configuration. It is a warning if the pool does not shrink because of it.
func configurationEvent(s api.Summary, c api.ConfigurationChange) api.Event {
	e := api.Event{At: s.At, Kind: api.EventConfiguration, Pool: s.Pool, Name: "configuration", Severity: api.SeverityInfo, Text: c.String(), Data: c}
	for _, h := range s.Holds {
		if h.Name == graceHold {
			e.Severity, e.Text = api.SeverityWarning, e.Text+"; "+h.Why
		}
	}
	return e
}

// findings yields the stored findings of the pool and of the harmonizer.
func (p Pool) findings(ctx context.Context, from, to time.Time, yield func(time.Time, []api.Event) bool) (unreadable int, err error) {
	err = state.FindingsSince(ctx, p.JS, p.Cluster, from, func(m bus.Stored) error {
		if m.At.After(to) {
			return ErrStop
		}
		if !slices.Contains(findingSubjects(p.Cluster, p.Pool), m.Subject) {
			return nil // of another pool
		}
		events, err := FindingEvents(p.Cluster, m.At, m.Subject, m.Data)
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

// FindingEvents returns the events of a stored message with findings: of node health of a pool, or of the harmonizer. now is the
// time of a finding without a time.
func FindingEvents(cluster string, now time.Time, subject string, data []byte) (out []api.Event, err error) {
	if subject == message.EventsSubject(cluster) {
		var list []api.AppFinding
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, fmt.Errorf("read findings of the harmonizer: %w", err)
		}
		for _, f := range list { // of all pools
			out = append(out, api.Event{At: now, Kind: api.EventHarmonizer, Name: string(f.Kind), Severity: apps.SeverityOf(f.Kind), Text: f.String(), Data: f})
		}
		return out, nil
	}
	before, after, _ := strings.Cut(events.EventsSubject(cluster, "*"), "*")
	pool, ok := strings.CutPrefix(subject, before)
	if pool = strings.TrimSuffix(pool, after); !ok || !names.Valid(pool) {
		return nil, fmt.Errorf("read findings: subject %.100q is none of cluster %s", subject, cluster)
	}
	var list []api.HealthNotification
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read findings of node health: %w", err)
	}
	for _, n := range list {
		out = append(out, api.Event{At: n.At, Kind: api.EventNodeHealth, Pool: pool, Name: string(n.Event), Severity: judge.SeverityOf(n.Event), Text: n.String(), Data: n})
	}
	return out, nil
}

// Package report answers what cloud controllers and tools ask the health
// manager on the bus (specs/health-manager.md §1.3): which indices flap, which
// copies crashed, how many are healthy, and all that is known of an app.
//
// Unlike the original it answers for an app that it does not know, so that
// nobody waits for a time-out, and tells when what it says may not be whole.
// Asking changes nothing. Answer is a function of the machine: whoever owns that
// calls it.
package report

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Droplet answers a message.DropletQuery, one message for each app.
type Droplet struct {
	App   string `json:"droplet"`
	Error string `json:"error,omitempty"` // "unknown", or why what follows may not be whole
	*apps.Explanation
}

// Answer returns the answers to what was asked on message.SubjectStatus,
// SubjectHealth or SubjectDroplet: one for each app asked for, each a message of
// its own. A question that cannot be read is an error; a status other than
// FLAPPING and CRASHED is not answered, as by the original.
func Answer(m *apps.Machine, now time.Time, subject string, data []byte) ([]any, error) {
	switch subject {
	case message.SubjectStatus:
		q, err := message.DecodeStatusQuery(data)
		if err != nil {
			return nil, err
		}
		return status(m, q)
	case message.SubjectHealth:
		q, err := message.DecodeHealthQuery(data)
		if err != nil {
			return nil, err
		}
		return health(m, q), nil
	case message.SubjectDroplet:
		q, err := message.DecodeDropletQuery(data)
		if err != nil {
			return nil, err
		}
		return droplets(m, now, q), nil
	}
	return nil, fmt.Errorf("answer: nothing is asked on subject %.100q", subject)
}

// incomplete is why nothing can be said for sure, "" if all can.
func incomplete(m *apps.Machine) string {
	if complete, why := m.Complete(); !complete {
		return why
	}
	return ""
}

func status(m *apps.Machine, q message.StatusQuery) ([]any, error) {
	why := incomplete(m)
	a := message.StatusAnswer{Complete: why == "", Error: why}
	switch q.State {
	case "FLAPPING":
		a.Indices = flapping(m, q)
	case "CRASHED":
		a.Instances = crashed(m, q)
	default:
		return nil, fmt.Errorf("answer: state is %.40q, neither FLAPPING nor CRASHED", q.State)
	}
	return []any{a}, nil
}

// flapping returns the indices of the asked version that wait for a delayed
// restart, or whose restarts were given up.
func flapping(m *apps.Machine, q message.StatusQuery) []message.IndexSince {
	out := []message.IndexSince{}
	since := m.Flapping(q.App, q.Version)
	for _, index := range slices.Sorted(maps.Keys(since)) {
		out = append(out, message.IndexSince{Index: index, Since: seconds(since[index])})
	}
	return out
}

// crashed returns the crash table, of all versions.
func crashed(m *apps.Machine, q message.StatusQuery) []message.InstanceSince {
	out := []message.InstanceSince{}
	for _, c := range m.Crashes(q.App) {
		out = append(out, message.InstanceSince{Instance: c.Instance, Since: c.Since})
	}
	return out
}

func health(m *apps.Machine, q message.HealthQuery) []any {
	why := incomplete(m)
	out := make([]any, 0, len(q.Apps))
	for _, asked := range q.Apps {
		out = append(out, message.HealthAnswer{
			App: asked.App, Version: asked.Version, Healthy: m.Healthy(asked.App, asked.Version), Complete: why == "", Error: why,
		})
	}
	return out
}

func droplets(m *apps.Machine, now time.Time, q message.DropletQuery) []any {
	why := incomplete(m)
	out := make([]any, 0, len(q.Apps))
	for _, name := range q.Apps {
		d := Droplet{App: name, Error: why}
		if e, ok := m.Explain(now, name); ok {
			d.Explanation = &e
		} else if why == "" {
			d.Error = "unknown"
		}
		out = append(out, d)
	}
	return out
}

// seconds is a time on the wire, 0 for none.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / float64(time.Second)
}

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

// maxWork bounds the indices and copies that are looked at for one question, and
// with it the time that it takes: some milliseconds.
const maxWork = 20_000

// tooMuch answers for the apps that are beyond it.
const tooMuch = "truncated: too much is asked at once, ask for this one again"

// Question is what was asked, read and not answered yet. Its answers are messages,
// one for each app, however often that is named.
type Question func(v apps.View, now time.Time) []any

// Read reads what was asked on message.SubjectStatus, SubjectHealth or
// SubjectDroplet. A question that cannot be read is an error, and so is a status
// other than FLAPPING and CRASHED, as the original answers none. Read needs no
// machine, and may run anywhere.
func Read(subject string, data []byte) (Question, error) {
	switch subject {
	case message.SubjectStatus:
		q, err := message.DecodeStatusQuery(data)
		if err == nil && q.State != flaps && q.State != crashed {
			err = fmt.Errorf("answer: state is %.40q, neither %s nor %s", q.State, flaps, crashed)
		}
		return func(v apps.View, _ time.Time) []any { return status(v, q) }, err
	case message.SubjectHealth:
		q, err := message.DecodeHealthQuery(data)
		q.Apps = once(q.Apps)
		return func(v apps.View, _ time.Time) []any { return health(v, q) }, err
	case message.SubjectDroplet:
		q, err := message.DecodeDropletQuery(data)
		q.Apps = once(q.Apps)
		return func(v apps.View, now time.Time) []any { return droplets(v, now, q) }, err
	}
	return nil, fmt.Errorf("answer: nothing is asked on subject %.100q", subject)
}

// Answer is Read and its answers.
func Answer(v apps.View, now time.Time, subject string, data []byte) ([]any, error) {
	q, err := Read(subject, data)
	if err != nil {
		return nil, err
	}
	return q(v, now), nil
}

// States that are asked for.
const (
	flaps   = "FLAPPING"
	crashed = "CRASHED"
)

// incomplete is why nothing can be said for sure, "" if all can.
func incomplete(v apps.View) string {
	if complete, why := v.Complete(); !complete {
		return why
	}
	return ""
}

func status(v apps.View, q message.StatusQuery) []any {
	why := incomplete(v)
	a := message.StatusAnswer{Complete: why == "", Error: why}
	if q.State == flaps {
		a.Indices = flapping(v, q)
	} else {
		a.Instances = crashes(v, q)
	}
	return []any{a}
}

// flapping returns the indices of the asked version that wait for a delayed
// restart, or whose restarts were given up.
func flapping(v apps.View, q message.StatusQuery) []message.IndexSince {
	out := []message.IndexSince{}
	since := v.Flapping(q.App, q.Version)
	for _, index := range slices.Sorted(maps.Keys(since)) {
		out = append(out, message.IndexSince{Index: index, Since: seconds(since[index])})
	}
	return out
}

// crashes returns the crash table, of all versions.
func crashes(v apps.View, q message.StatusQuery) []message.InstanceSince {
	out := []message.InstanceSince{}
	for _, c := range v.Crashes(q.App) {
		out = append(out, message.InstanceSince{Instance: c.Instance, Since: c.Since})
	}
	return out
}

func health(v apps.View, q message.HealthQuery) []any {
	why, spent := incomplete(v), work(0)
	out := make([]any, 0, len(q.Apps))
	for _, asked := range q.Apps {
		a := message.HealthAnswer{App: asked.App, Version: asked.Version, Error: tooMuch}
		if spent.affords(v, asked.App) {
			a.Healthy, a.Complete, a.Error = v.Healthy(asked.App, asked.Version), why == "", why
		}
		out = append(out, a)
	}
	return out
}

func droplets(v apps.View, now time.Time, q message.DropletQuery) []any {
	why, spent := incomplete(v), work(0)
	out := make([]any, 0, len(q.Apps))
	for _, name := range q.Apps {
		d := Droplet{App: name, Error: tooMuch}
		if spent.affords(v, name) {
			d.Error = why
			if e, ok := v.Explain(now, name); ok {
				d.Explanation = &e
			} else if why == "" {
				d.Error = "unknown"
			}
		}
		out = append(out, d)
	}
	return out
}

// work is how much was looked at for a question.
type work int

// affords reports whether an app may be looked at too: the first one always.
func (w *work) affords(v apps.View, app string) bool {
	cost := work(1 + v.Size(app))
	if *w > 0 && *w+cost > maxWork {
		return false
	}
	*w += cost
	return true
}

// seconds is a time on the wire, 0 for none.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / float64(time.Second)
}

// once returns what is in a list, each only once.
func once[T comparable](list []T) []T {
	seen := make(map[T]bool, len(list))
	return slices.DeleteFunc(list, func(x T) bool {
		again := seen[x]
		seen[x] = true
		return again
	})
}

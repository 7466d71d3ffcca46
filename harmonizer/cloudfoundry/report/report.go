// Package report answers the requests of cloud controllers and tools to the health manager on
// the bus (specs/health-manager.md §1.3). They request flapping indices, crashed copies, the
// number of healthy indices, or the full state of an app.
//
// Unlike the original, it also answers for an unknown app, so that the requester does not wait
// for a timeout. It also marks incomplete answers. A request changes nothing. Answer is a
// function of the machine, so the owner of the machine must call it.
package report

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// dropletAnswer answers a message.DropletQuery, with one message for each app.
type dropletAnswer struct {
	App   string `json:"droplet"`
	Error string `json:"error,omitempty"` // "unknown", or why the answer may be incomplete
	*api.AppExplanation
}

// maxWork bounds the indices and copies processed for one request, and so its time to some
// milliseconds.
const maxWork = 20_000

// truncated is the error for the apps beyond maxWork.
const tooLarge = "truncated: the request covers too many instances; request this app again"

// Evaluator is a decoded request. It returns the answers, one message for each app, without
// repeats.
type Evaluator func(v apps.View, now time.Time) []any

// Read decodes a request on message.SubjectStatus, SubjectHealth or SubjectDroplet. It returns
// an error if the request is malformed. A status other than FLAPPING and CRASHED is also an
// error, because the original answers no other. Read needs no machine, and may run in any
// goroutine.
func Read(subject string, data []byte) (Evaluator, error) {
	switch subject {
	case SubjectStatus:
		q, err := decodeStatusQuery(data)
		if err == nil && q.State != stateFlapping && q.State != stateCrashed {
			err = fmt.Errorf("answer: state is %.40q; use %s or %s", q.State, stateFlapping, stateCrashed)
		}
		return func(v apps.View, _ time.Time) []any { return status(v, q) }, err
	case SubjectHealth:
		q, err := decodeHealthQuery(data)
		q.Apps = unique(q.Apps)
		return func(v apps.View, _ time.Time) []any { return health(v, q) }, err
	case SubjectDroplet:
		q, err := decodeDropletQuery(data)
		q.Apps = unique(q.Apps)
		return func(v apps.View, now time.Time) []any { return droplets(v, now, q) }, err
	}
	return nil, fmt.Errorf("answer: subject %.100q is not for requests", subject)
}

// Answer decodes a request and returns its answers.
func Answer(v apps.View, now time.Time, subject string, data []byte) ([]any, error) {
	q, err := Read(subject, data)
	if err != nil {
		return nil, err
	}
	return q(v, now), nil
}

// States that can be requested.
const (
	stateFlapping = "FLAPPING"
	stateCrashed  = "CRASHED"
)

// incomplete returns why answers may be incomplete, "" if they are complete.
func incomplete(v apps.View) string {
	if complete, why := v.Complete(); !complete {
		return why
	}
	return ""
}

func status(v apps.View, q statusQuery) []any {
	why := incomplete(v)
	a := statusAnswer{Complete: why == "", Error: why}
	if q.State == stateFlapping {
		a.Indices = flapping(v, q)
	} else {
		a.Instances = crashes(v, q)
	}
	return []any{a}
}

// flapping returns the indices of the requested version that wait for a delayed restart or
// were given up.
func flapping(v apps.View, q statusQuery) []indexSince {
	out := []indexSince{}
	since := v.Flapping(q.App, q.Version)
	for _, index := range slices.Sorted(maps.Keys(since)) {
		out = append(out, indexSince{Index: index, Since: seconds(since[index])})
	}
	return out
}

// crashes returns the crash table, of all versions.
func crashes(v apps.View, q statusQuery) []instanceSince {
	out := []instanceSince{}
	for _, c := range v.Crashes(q.App) {
		out = append(out, instanceSince{Instance: c.Instance, Since: c.Since})
	}
	return out
}

func health(v apps.View, q healthQuery) []any {
	why, spent := incomplete(v), work(0)
	out := make([]any, 0, len(q.Apps))
	for _, requested := range q.Apps {
		a := healthAnswer{App: requested.App, Version: requested.Version, Error: tooLarge}
		if spent.affords(v, requested.App) {
			a.Healthy, a.Complete, a.Error = v.Healthy(requested.App, requested.Version), why == "", why
		}
		out = append(out, a)
	}
	return out
}

func droplets(v apps.View, now time.Time, q dropletQuery) []any {
	why, spent := incomplete(v), work(0)
	out := make([]any, 0, len(q.Apps))
	for _, name := range q.Apps {
		d := dropletAnswer{App: name, Error: tooLarge}
		if spent.affords(v, name) {
			d.Error = why
			if e, ok := v.Explain(now, name); ok {
				d.AppExplanation = &e
			} else if why == "" {
				d.Error = "unknown"
			}
		}
		out = append(out, d)
	}
	return out
}

// work is the amount of work for a request.
type work int

// affords reports whether the limit allows one more app. The first app is always allowed.
func (w *work) affords(v apps.View, app string) bool {
	cost := work(1 + v.Size(app))
	if *w > 0 && *w+cost > maxWork {
		return false
	}
	*w += cost
	return true
}

// seconds returns a time in unix seconds, 0 for a zero time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / float64(time.Second)
}

// unique returns the list without repeated elements.
func unique[T comparable](list []T) []T {
	seen := make(map[T]bool, len(list))
	return slices.DeleteFunc(list, func(x T) bool {
		again := seen[x]
		seen[x] = true
		return again
	})
}

// Counter returns the name of the counter for requests on a report subject.
func Counter(subject string) string {
	switch subject {
	case SubjectStatus:
		return "reports_status"
	case SubjectHealth:
		return "reports_health"
	case SubjectDroplet:
		return "reports_droplet"
	}
	return "reports_other"
}

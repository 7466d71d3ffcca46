package harmonizer

import (
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

const (
	findingsLimit  = 10_000  // findings queued one by one; further findings become summaries
	summariesLimit = 100_000 // summaries by app, plus findingsLimit by node; further ones are merged by kind, reason and rule
)

// digest queues the findings to publish, in order. It drops none. If too many wait, findings
// of one app with the same kind, reason and rule become one summary. Later findings are
// summarised too, until all single findings are taken. The zero digest is empty.
type digest struct {
	waiting   []api.AppFinding
	summaries []api.AppFinding // in the order of their first findings
	at        map[subject]int
}

// subject is what the findings of a summary have in common. App, pool and node are empty in the
// summaries beyond the limit. Node is set only in findings without an app.
type subject struct {
	kind            api.AppFindingKind
	why             api.AppReason
	rule            api.AppRule
	app, pool, node string
}

// addFinding adds a finding and reports whether it was merged into a summary.
func (d *digest) addFinding(f *api.AppFinding) bool {
	if len(d.summaries) == 0 && len(d.waiting) < findingsLimit {
		d.waiting = append(d.waiting, *f)
		return false
	}
	s, most := subject{kind: f.Kind, why: f.Why, rule: f.Rule, app: f.App}, summariesLimit
	if s.app == "" {
		s.pool, s.node, most = f.Pool, f.Node, most+findingsLimit
	}
	i, ok := d.at[s]
	if !ok && len(d.summaries) >= most {
		s.app, s.pool, s.node = "", "", ""
		i, ok = d.at[s]
	}
	if ok {
		merge(&d.summaries[i], f)
		return true
	}
	if d.at == nil {
		d.at = map[subject]int{}
	}
	d.at[s] = len(d.summaries)
	d.summaries = append(d.summaries, *f)
	return false
}

// takeFindings removes up to n findings and returns them.
func (d *digest) takeFindings(n int) []api.AppFinding {
	if len(d.waiting) == 0 {
		d.waiting, d.summaries, d.at = d.summaries, nil, nil
	}
	n = min(len(d.waiting), n)
	taken := slices.Clone(d.waiting[:n])
	if d.waiting = d.waiting[n:]; len(d.waiting) == 0 {
		d.waiting = nil
	}
	return taken
}

// merge adds a finding to a summary, or to the first finding of a new one. Fields that differ
// become empty.
func merge(into, f *api.AppFinding) {
	into.Count = max(into.Count, 1) + max(f.Count, 1)
	into.Index = 0
	for _, field := range [...]struct{ of, in *string }{
		{&into.App, &f.App}, {&into.Version, &f.Version}, {&into.Instance, &f.Instance}, {&into.Pool, &f.Pool}, {&into.Node, &f.Node}, {&into.Detail, &f.Detail},
	} {
		if *field.of != *field.in {
			*field.of = ""
		}
	}
	if !into.Until.Equal(f.Until) {
		into.Until = time.Time{}
	}
}

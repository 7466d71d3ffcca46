package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Recording is the past of a pool, as a world needs it: what each signal requested, when each machine joined, drained and was lost, what
// the provider refused, and what operators ordered. Add adds the records, the oldest first. It keeps no list of nodes for each tick.
type Recording struct {
	cluster, pool string
	start         *beginning
	ticks         []recordedTick
	lives         []*life // all machines, in order of appearance
	byID          map[string]*life
	alive         []*life
	groups        map[string]*recordedGroup
	apps          map[string]bool
	draining      drain.Config              // as the drains show it
	out           int                       // nodes out of service after the last record
	over          map[string]float64        // weight beyond the target in the last record, by group
	own           map[string]api.GroupState // after the last record, by group
	targets       map[string]int            // after the actions of the last record, by group
	older         summaries                 // of the ticks before the records

	skipped   int // records without a decision
	old       int // records of an older schema
	newestOld string
	schema    int // of that one
	backwards int // records that do not follow the one before in time
	notes     []string
	unnoted   int
}

// beginning is the pool after the first tick with a decision. The replay begins there.
type beginning struct {
	at      time.Time
	state   api.PoolState
	drains  []api.Drain
	targets map[string]int
	lives   []*life
}

// maxRecorded bounds the ticks of a recording.
const maxRecorded = 500_000

// Add adds the record of the next tick. where is its place for the reader of an error, such as night.jsonl:17; empty: the ledger. It
// returns an error if the record is of another pool, or if there are too many.
func (r *Recording) Add(where string, t api.TickRecord) error {
	name := text(t.At)
	if where != "" {
		name += " (" + where + ")"
	}
	if r.byID == nil {
		r.byID, r.groups, r.apps, r.over = map[string]*life{}, map[string]*recordedGroup{}, map[string]bool{}, map[string]float64{}
		r.cluster, r.pool = t.Cluster, cmp.Or(r.pool, t.Pool)
	}
	switch {
	case t.Cluster != r.cluster || t.Pool != r.pool:
		return fmt.Errorf("the record of %s is of pool %s/%s, and earlier ones are of %s/%s: give the records of one pool", name, t.Cluster, t.Pool, r.cluster, r.pool)
	case t.Schema != resolve.Schema:
		r.old++
		r.newestOld, r.schema = name, t.Schema
		return nil
	case len(r.ticks) == maxRecorded:
		return fmt.Errorf("the recording has more than %d ticks: give a shorter time", maxRecorded)
	case t.DryRun, t.Case == nil && t.Paused == nil, t.Case == nil && r.start == nil:
		r.skipped++
		return nil
	case !t.At.After(r.last()):
		r.skipped++
		if r.backwards++; r.backwards == 1 {
			r.note(fmt.Sprintf("time runs backwards: the record of %s follows one of %s; it is left out, as are later ones up to that time: sort the records, or replay each part", name, text(r.last())))
		}
		return nil
	}
	if missing := t.At.Sub(r.last()); r.start != nil && missing > max(gapTicks*t.Every, t.Every+minGap) {
		r.note(fmt.Sprintf("gap: no record for %s before that of %s; the replay has no ticks in it, and meets what happened at its end: begin after it to leave it out", missing.Round(time.Second), name))
	}
	if t.Case == nil {
		r.ticks = append(r.ticks, recordedTick{at: t.At, every: t.Every, epoch: t.Epoch, orders: api.Orders{Pause: t.Paused}})
		return nil
	}
	tick := r.tickOf(t)
	r.follow(&tick, t)
	if r.start == nil {
		r.start = &beginning{t.At, t.State, slices.Clone(t.Drains), targetsAfter(t), r.remaining()}
		for _, one := range r.start.lives {
			one.initial = true
		}
		return nil
	}
	r.ticks = append(r.ticks, tick)
	return nil
}

// AddSummary adds the summary of a tick for which there is no record, the oldest first. Series and Groups use those before the records,
// and no replay does. It returns an error if the summary is of another pool.
func (r *Recording) AddSummary(where string, s api.Summary) error {
	name := text(s.At)
	if where != "" {
		name += " (" + where + ")"
	}
	r.pool = cmp.Or(r.pool, s.Pool)
	switch {
	case s.Pool != r.pool:
		return fmt.Errorf("the summary of %s is of pool %s, and earlier ticks are of %s: give those of one pool", name, s.Pool, r.pool)
	case s.DryRun:
		r.skipped++
		return nil
	case !s.At.After(r.older.last):
		r.skipped++
		if r.backwards++; r.backwards == 1 {
			r.note(fmt.Sprintf("time runs backwards: the summary of %s follows one of %s; it is left out, as are later ones up to that time", name, text(r.older.last)))
		}
		return nil
	}
	if missing := s.At.Sub(r.older.last); !r.older.last.IsZero() && missing > max(gapTicks*s.Every, s.Every+minGap) {
		r.note(fmt.Sprintf("gap: no summary for %s before that of %s: the demand stays as it was", missing.Round(time.Second), name))
	}
	r.older.add(s)
	return nil
}

// A gap in the records is longer than both.
const (
	gapTicks = 3 // of the time between two ticks
	minGap   = 10 * time.Second
)

func text(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// maxNotes bounds the notes of a recording.
const maxNotes = 20

func (r *Recording) note(text string) {
	switch {
	case slices.Contains(r.notes, text):
	case len(r.notes) < maxNotes:
		r.notes = append(r.notes, text)
	default:
		r.unnoted++
	}
}

// Notes returns what a replay leaves out or does otherwise than the record.
func (r *Recording) Notes() []string {
	all := slices.Clone(r.notes)
	if r.backwards > 1 {
		all = append(all, fmt.Sprintf("time runs backwards in %d records: they are left out", r.backwards))
	}
	if r.unnoted > 0 {
		all = append(all, fmt.Sprintf("%d more notes are left out", r.unnoted))
	}
	return all
}

// last returns the time of the last tick.
func (r *Recording) last() time.Time {
	switch n := len(r.ticks); {
	case n > 0:
		return r.ticks[n-1].at
	case r.start != nil:
		return r.start.at
	}
	return time.Time{}
}

// lastDecided returns the time of the last tick that was not paused: it found all machines that existed.
func (r *Recording) lastDecided() time.Time {
	for i := len(r.ticks) - 1; i >= 0; i-- {
		if r.ticks[i].of != nil {
			return r.ticks[i].at
		}
	}
	if r.start != nil {
		return r.start.at
	}
	return time.Time{}
}

// Span returns the times of the first and the last tick.
func (r *Recording) Span() (from, to time.Time) {
	switch from = r.older.first; {
	case r.start == nil:
		return from, r.older.last
	case from.IsZero() || r.start.at.Before(from):
		from = r.start.at
	}
	return from, r.last()
}

// CheckSeries returns why the recording has no series or no groups, with what to do; nil: it has.
func (r *Recording) CheckSeries() error {
	if len(r.older.demands) > 0 {
		return nil
	}
	return r.Check()
}

// Check returns why the recording cannot be replayed, with what to do; nil: it can.
func (r *Recording) Check() error {
	switch {
	case r.old > 0 && r.schema > resolve.Schema:
		return fmt.Errorf("%d records are of another schema, the last of schema %d at %s, and this weir replays schema %d: use the weir that wrote them", r.old, r.schema, r.newestOld, resolve.Schema)
	case r.old > 0:
		return fmt.Errorf("%d records are of an older schema, the last of schema %d at %s, and this weir replays schema %d: begin after it, or use the weir that wrote them",
			r.old, r.schema, r.newestOld, resolve.Schema)
	case r.start == nil:
		return fmt.Errorf("no tick of the %d records has a decision: give a longer time", r.skipped)
	case len(r.ticks) == 0:
		return fmt.Errorf("the only tick with a decision is that of %s: give a longer time", text(r.start.at))
	}
	return nil
}

// groupOf returns the group of a node.
func (r *Recording) groupOf(node string, nodes []api.Candidate) string {
	if one := r.byID[node]; one != nil {
		return one.group
	}
	if i := slices.IndexFunc(nodes, func(c api.Candidate) bool { return c.ID == node }); i >= 0 {
		return nodes[i].Group
	}
	return ""
}

// groupsOf adopts the groups of a record.
func (r *Recording) groupsOf(t api.TickRecord) {
	weights := map[string]float64{}
	for i := range t.Case.Nodes {
		weights[t.Case.Nodes[i].Group] = t.Case.Nodes[i].Weight
	}
	for _, s := range t.Snapshot.Groups {
		g := r.groups[s.ID]
		if g == nil {
			g = &recordedGroup{kinds: map[string]bool{}, markets: map[string]recordedMarket{}, sizes: map[float64]resource.Vector{}}
			r.groups[s.ID] = g
		}
		if s.Unknown == nil {
			g.min, g.max = s.Min, s.Max
		}
		g.provider = cmp.Or(s.Kind, g.provider)
		g.weight = cmp.Or(weights[s.ID], g.weight)
		newest := time.Time{}
		seen := t.State.Groups[s.ID].Seen
		for _, kind := range slices.Sorted(maps.Keys(seen)) {
			if m := seen[kind]; !m.Resources.IsZero() && !m.Launched.Before(newest) {
				newest, g.kind, g.machine, g.weight = m.Launched, kind, m.Resources, cmp.Or(m.Weight, g.weight)
				g.kinds[kind], g.sizes[g.weight] = true, m.Resources
			}
		}
		g.marketsOf(t, s.ID)
		if joined := t.Case.Input.Capacity.Joined; g.machine.IsZero() && joined > 0 && g.weight > 0 {
			g.machine = t.Case.Input.Capacity.Totals.Scale(g.weight / joined)
		}
	}
}

// remaining returns the machines that exist, the oldest first.
func (r *Recording) remaining() []*life {
	out := slices.DeleteFunc(slices.Clone(r.alive), func(one *life) bool { return !one.ended.IsZero() })
	slices.SortStableFunc(out, func(a, b *life) int { return a.launched.Compare(b.launched) })
	return out
}

// demands returns what the apps needed, from each tick to the next: by the summaries, and then by the records.
func (r *Recording) demands() (out []demand) {
	for _, d := range r.older.demands {
		if r.start == nil || d.at.Before(r.start.at) {
			out = append(out, d)
		}
	}
	for i := range r.ticks {
		t := &r.ticks[i]
		if t.need == nil {
			continue
		}
		next := demand{t.at, t.need, t.request}
		if len(out) == 0 {
			next.at = r.start.at
		}
		out = append(out, next)
	}
	return out
}

// Series returns what the apps needed, from each tick to the next. After the last point the need stays, as that of an app does whose
// signal does not report. Apps that never had a signal of their own are one app: it has the rest of the request.
func (r *Recording) Series() (*Series, error) {
	all, own, apps := r.demands(), map[string]bool{}, map[string]bool{}
	maps.Copy(apps, r.apps)
	maps.Copy(apps, r.older.apps)
	for _, d := range all {
		for app := range d.need {
			own[app] = true
		}
	}
	var others []string
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		if !own[app] {
			others = append(others, app)
		}
	}
	rest := allApps
	if len(others) == 1 {
		rest = others[0]
	}
	s, last := NewSeries(), map[string]resource.Vector{}
	for _, d := range all {
		need, left := maps.Clone(d.need), d.request
		for _, v := range d.need {
			left = left.Sub(v)
		}
		if len(d.need) == len(own) && (len(others) > 0 || len(own) == 0) {
			for k := range left {
				left[k] = max(0, left[k])
			}
			need[rest] = left
		}
		for _, app := range slices.Sorted(maps.Keys(need)) {
			if before, known := last[app]; known && before == need[app] {
				continue
			}
			if err := s.Add(app, d.at, need[app]); err != nil {
				return nil, fmt.Errorf("the tick of %s: %w", text(d.at), err)
			}
			last[app] = need[app]
		}
	}
	if len(last) == 0 {
		return nil, fmt.Errorf("no tick of the recording has a request")
	}
	return s, nil
}

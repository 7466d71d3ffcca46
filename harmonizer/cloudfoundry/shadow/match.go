package shadow

import (
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// matchNudge matches the acts of a nudge one by one. An index that occurs twice in one nudge counts
// as a repeat.
func (m *Matcher) matchNudge(now time.Time, by side, n apps.Nudge) {
	m.expire(now)
	if s := n.Start; s != nil {
		for _, index := range s.Indices {
			m.match(now, by, api.ShadowAct{Op: api.ShadowStart, App: s.App, Version: s.Version, Index: index})
		}
	}
	if s := n.Stop; s != nil {
		for _, id := range slices.Sorted(maps.Keys(s.Instances)) {
			m.match(now, by, api.ShadowAct{Op: api.ShadowStop, App: s.App, Instance: id})
		}
	}
}

// match pairs an act with all equal acts of the other side within the window.
func (m *Matcher) match(now time.Time, by side, act api.ShadowAct) {
	if m.held[by] >= m.cfg.Limit {
		m.stats.Dropped++
		return
	}
	pair := m.acts[act]
	if pair == nil {
		pair = new([2]track)
		m.acts[act] = pair
	}
	own, other := &pair[by], &pair[1-by]
	d := &done{act: act, by: by, at: now, matched: other.recent > 0}
	m.queue = append(m.queue, d)
	m.held[by]++
	own.recent++
	if !d.matched {
		own.open = append(own.open, d)
		return
	}
	m.stats.Matched++
	for _, o := range other.open {
		o.matched = true
		m.stats.Matched++
	}
	other.open = nil
}

// expire removes the acts whose window has passed.
func (m *Matcher) expire(now time.Time) {
	for len(m.queue) > 0 && now.Sub(m.queue[0].at) > m.cfg.Window {
		m.leave(m.queue[0])
		m.queue[0] = nil
		m.queue = m.queue[1:]
	}
}

func (m *Matcher) leave(d *done) {
	pair := m.acts[d.act]
	own := &pair[d.by]
	own.recent--
	m.held[d.by]--
	if !d.matched {
		own.open = own.open[1:] // in order of time; this is the oldest
		m.report(d)
	}
	if pair[0].recent+pair[1].recent == 0 {
		delete(m.acts, d.act)
	}
}

func (m *Matcher) report(d *done) {
	if d.by == 0 {
		m.stats.Own++
	} else {
		m.stats.Other++
	}
	if len(m.alone) < 2*m.cfg.Limit {
		m.alone = append(m.alone, api.ShadowMismatch{By: d.by.name(), ShadowAct: d.act, At: d.at})
	}
}

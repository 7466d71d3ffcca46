package cloudfoundry

import (
	"log/slog"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/shadow"
)

const (
	comparerLogged = 20  // mismatches of one check that are logged one by one
	comparerStored = 100 // newest mismatches in a Status
)

// Comparer is shadow mode: it compares own nudges, which are not sent, with received ones.
type Comparer struct {
	matcher *shadow.Matcher
	every   time.Duration
	log     *slog.Logger

	checked time.Time
	last    []api.ShadowMismatch // the newest that were logged
}

// NewComparer returns a comparer without nudges. The configuration must be valid.
func NewComparer(cfg shadow.Config, log *slog.Logger) *Comparer {
	return &Comparer{matcher: shadow.New(cfg), every: cfg.Every, log: log}
}

// Own adds nudges that we would have sent.
func (m *Comparer) Own(now time.Time, nudges []apps.Nudge) {
	for _, n := range nudges {
		m.matcher.Own(now, n)
	}
}

// Received adds a nudge of the other harmonizer.
func (m *Comparer) Received(now time.Time, n apps.Nudge) { m.matcher.Received(now, n) }

// Check logs the mismatches each time a check is due.
func (m *Comparer) Check(now time.Time) {
	if m.checked.IsZero() {
		m.checked = now
	}
	if now.Sub(m.checked) < m.every {
		return
	}
	m.checked = now
	alone := m.matcher.Due(now)
	if len(alone) == 0 {
		m.log.Info("shadow check: no mismatch")
		return
	}
	stats := m.matcher.Stats()
	m.log.Warn("shadow check: mismatches", "now", len(alone), "own_alone", stats.Own, "other_alone", stats.Other)
	for _, a := range alone[:min(len(alone), comparerLogged)] {
		m.log.Warn("shadow mismatch", "by", string(a.By), "act", a.ShadowAct.String(), "at", a.At)
	}
	m.last = append(m.last, alone...)
	m.last = slices.Clone(m.last[max(0, len(m.last)-comparerStored):])
}

// Status returns the counts so far, and the newest mismatches.
func (m *Comparer) Status() *api.HarmonizerShadow {
	return &api.HarmonizerShadow{ShadowStats: m.matcher.Stats(), Last: slices.Clone(m.last)}
}

package harmonizer

import (
	"log/slog"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/shadow"
)

const (
	mirrorWarned = 20  // mismatches of one check that are logged one by one
	mirrorKept   = 100 // newest mismatches in a Status
)

// comparer is shadow mode: it compares own nudges, which are not sent, with received ones.
type mirror struct {
	matcher *shadow.Matcher
	every   time.Duration
	log     *slog.Logger

	checked time.Time
	last    []shadow.Mismatch // the newest that were logged
}

// ShadowStatus is the part of a Status about shadow mode.
type Shadowing struct {
	shadow.Stats
	Last []shadow.Mismatch `json:"last,omitempty"` // the newest, in order of time
}

func newMirror(cfg Config, log *slog.Logger) *mirror {
	m := shadow.New(shadow.Config{Window: cfg.MaxShadowingDelay}.WithDefaults())
	return &mirror{matcher: m, every: cfg.CheckShadowing, log: log}
}

func (m *mirror) own(now time.Time, nudges []apps.Nudge) {
	for _, n := range nudges {
		m.matcher.Own(now, n)
	}
}

func (m *mirror) other(now time.Time, n apps.Nudge) { m.matcher.Heard(now, n) }

// tick logs the mismatches each time a check is due.
func (m *mirror) tick(now time.Time) {
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
	for _, a := range alone[:min(len(alone), mirrorWarned)] {
		m.log.Warn("shadow mismatch", "by", string(a.By), "act", a.Act.String(), "at", a.At)
	}
	m.last = append(m.last, alone...)
	m.last = slices.Clone(m.last[max(0, len(m.last)-mirrorKept):])
}

func (m *mirror) status() *Shadowing {
	return &Shadowing{Stats: m.matcher.Stats(), Last: slices.Clone(m.last)}
}

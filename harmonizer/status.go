package harmonizer

import (
	"context"
	"maps"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// statusLimit bounds the lists of a Status, so that it fits a message of the bus.
const statusLimit = 1000

// Status is what the harmonizer knows, for people.
type Status struct {
	Complete bool              `json:"complete"`
	Why      string            `json:"why,omitempty"` // why it is not: then nothing is nudged
	At       time.Time         `json:"at"`
	Counters map[string]uint64 `json:"counters"`
	Apps     []apps.Summary    `json:"apps,omitempty"`    // if no app was asked for: all, in order of name
	App      *apps.Explanation `json:"app,omitempty"`     // the app that was asked for, if it is known
	Omitted  int               `json:"omitted,omitempty"` // apps, or indices of the app, left out at the end
}

// Counts returns the counts of a pool as they are now.
func (h *Harmonizer) Counts(ctx context.Context, pool string) (message.Counts, error) {
	var c message.Counts
	err := h.ask(ctx, func(now time.Time) { c = h.machine.Counts(now, pool) })
	return c, err
}

// Status returns what is known of one app, or with an empty name of all in short.
func (h *Harmonizer) Status(ctx context.Context, app string) (Status, error) {
	var s Status
	err := h.ask(ctx, func(now time.Time) { s = h.status(now, app) })
	return s, err
}

func (h *Harmonizer) status(now time.Time, app string) Status {
	s := Status{At: now, Counters: maps.Clone(h.counters)}
	s.Complete, s.Why = h.machine.Complete()
	if app == "" {
		s.Apps, s.Omitted = truncate(h.machine.Apps())
		return s
	}
	if e, ok := h.machine.Explain(app); ok {
		e.Indices, s.Omitted = truncate(e.Indices)
		s.App = &e
	}
	return s
}

func truncate[T any](list []T) ([]T, int) {
	n := min(len(list), statusLimit)
	return list[:n], len(list) - n
}

// ask has the loop run f, and waits for it. When it returns an error, f did not
// run and will not.
func (h *Harmonizer) ask(ctx context.Context, f func(now time.Time)) error {
	done := make(chan struct{})
	select {
	case h.queries <- func(now time.Time) { f(now); close(done) }:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

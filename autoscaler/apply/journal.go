package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
)

// Memory stores the state of a pool, for the holder of the lease.
type Memory interface {
	// Load returns the state that was saved last, which the caller may change. If no state was saved, ok is false. The error
	// wraps ErrLaterSchema for the state of a later version.
	Load(ctx context.Context) (s Saved, ok bool, err error)
	// Save replaces the stored state durably, and keeps no part of s. If another process has taken over, it returns
	// pools.ErrNotHolder and changes nothing.
	Save(ctx context.Context, s Saved) error
}

// Intent is saved before any change. So a process that finds an intent can conclude that the last process
// may have ended in the middle of the changes.
type Intent struct {
	At      time.Time      `json:"at"`
	Targets map[string]int `json:"targets,omitempty"` // absolute, by group
	Remove  []string       `json:"remove,omitempty"`  // nodes
}

// Saved is the saved state for the next tick and the next process.
type Saved struct {
	Schema int           `json:"schema"`
	Weir   string        `json:"weir,omitempty"` // the version that wrote it
	State  api.PoolState `json:"state"`
	Intent *Intent       `json:"intent,omitempty"` // nil after it was carried out
	// Configured is the configuration of the last tick; nil: the version that wrote it does not store it.
	Configured *configured `json:"configured,omitempty"`
}

// countIntent raises the last targets to those of an unfinished intent, which may have taken effect. The other parts of an intent
// have records of their own: a drain record is saved before its node is changed, and an order stays until it is carried out.
func (s *Saved) countIntent() {
	if s.Intent == nil {
		return
	}
	for group, of := range s.State.Groups {
		if of.LastTarget != nil {
			of.LastTarget = new(max(*of.LastTarget, s.Intent.Targets[group]))
			s.State.Groups[group] = of
		}
	}
}

// journal holds the state of a pool, and saves it with the intent.
type journal struct {
	memory  Memory
	version string // of this build
	guard   *guard
	loaded  bool          // state is that of the last process, or no state exists
	state   api.PoolState // without Joined, Unobserved and Spot

	intent     time.Time // of the last intent; zero: there is none, or the last process has carried it out
	unfinished bool      // the last process has not, and none was saved since

	configured configured
}

// targets returns the last known target of each group.
func (j *journal) targets() map[string]int {
	out := make(map[string]int, len(j.state.Groups))
	for id, of := range j.state.Groups {
		if of.LastTarget != nil {
			out[id] = *of.LastTarget
		}
	}
	return out
}

// load restores the state of the last process, and returns it with the nodes that had joined; without a saved state
// it returns nil. After an unfinished intent the result of all targets is unknown. After a recent
// request that of its group is unknown. Undecodable data counts as never saved. The state of a later
// version is an error.
func (j *journal) load(ctx context.Context, now time.Time, pool string, log *slog.Logger) (*api.PoolState, error) {
	m, ok, err := j.memory.Load(ctx)
	if err == nil && ok {
		m.countIntent()
		if invalid := resolve.ValidateState(m.State); invalid != nil {
			err = fmt.Errorf("%w: %w", errUnreadable, invalid)
		}
	}
	switch {
	case errors.Is(err, ErrLaterSchema):
		return nil, fmt.Errorf("load the state of pool %s: %w", pool, err)
	case errors.Is(err, errUnreadable):
		log.Error("decode the saved state failed", "pool", pool, "err", err)
		ok = false
	case err != nil:
		return nil, fmt.Errorf("load what the last tick handed on: %w", err)
	}
	j.loaded = true
	if !ok {
		return nil, nil
	}
	had := m.State
	m.State.Joined, m.State.Unobserved, m.State.Spot = nil, nil, nil
	j.state = m.State
	if j.unfinished = m.Intent != nil; j.unfinished {
		j.intent = m.Intent.At
	}
	if m.Configured != nil {
		j.configured = *m.Configured
	}
	for group, of := range j.state.Groups {
		// The progress of an intent is unknown.
		if m.Intent != nil || now.Sub(of.At) < resolve.ReadLag {
			of.ResultUnknown = true
			j.state.Groups[group] = of
		}
	}
	return &had, nil
}

// save saves a state with the joined nodes and the intent; nil: the intent was carried out.
func (j *journal) save(ctx context.Context, s api.PoolState, i *Intent) error {
	saved := Saved{Schema: resolve.Schema, Weir: j.version, State: s, Intent: i}
	if j.configured.Parts != nil {
		saved.Configured = &j.configured
	}
	if err := j.guard.call(ctx, func(ctx context.Context) error { return j.memory.Save(ctx, saved) }); err != nil {
		return fmt.Errorf("keep what is handed on: %w", err)
	}
	if i != nil {
		j.intent, j.unfinished = i.At, false
	}
	return nil
}

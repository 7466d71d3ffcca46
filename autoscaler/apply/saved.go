package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
)

// Memory keeps what one tick hands on to the next, for who holds the lease.
type Memory interface {
	// Load returns what was saved last; ok is false if nothing ever was.
	Load(ctx context.Context) (data []byte, ok bool, err error)
	// Save keeps data in place of it, durably. pools.ErrNotHolder if another process has
	// taken over; then nothing is changed.
	Save(ctx context.Context, data []byte) error
}

// Intent is what is about to be done. It is saved before anything is done, so a process
// that finds it knows that the last one may have ended in the midst of it.
type Intent struct {
	At      time.Time      `json:"at"`
	Targets map[string]int `json:"targets,omitempty"` // absolute, by group
	LetGo   []string       `json:"let_go,omitempty"`  // nodes
}

// Saved is what is kept for the next tick and the next process.
type Saved struct {
	Schema int           `json:"schema"`
	Weir   string        `json:"weir,omitempty"` // the version that wrote it
	State  resolve.State `json:"state"`
	Intent *Intent       `json:"intent,omitempty"` // nil once it has been done
}

// readLag is for how long a provider may show a group as it was before a request of another
// process.
const readLag = 3 * time.Minute

// journal keeps the state of a pool: in memory, and saved with what is about to be done.
type journal struct {
	memory  Memory
	version string // of this build
	guard   *guard
	loaded  bool          // state is that of the last process, or there is none
	state   resolve.State // without Joined
}

// load takes up the state of the last process, and returns the nodes that had joined;
// known is false without them. An unfinished intent leaves all targets in doubt, and a recent
// request that of its group. What cannot be decoded counts as never saved, but for that of a later
// version, which is an error.
func (j *journal) load(ctx context.Context, now time.Time, pool string, log *slog.Logger) (joined []string, known bool, err error) {
	data, ok, err := j.memory.Load(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("load what the last tick handed on: %w", err)
	}
	if !ok {
		j.loaded = true
		return nil, false, nil
	}
	m, err := Decode(data)
	if err == nil {
		err = m.State.Validate()
	}
	if errors.Is(err, ErrLaterSchema) {
		return nil, false, fmt.Errorf("load the state of pool %s: %w", pool, err)
	}
	j.loaded = true
	if err != nil {
		log.Error("what the last tick handed on cannot be read", "pool", pool, "err", err)
		return nil, false, nil
	}
	joined, m.State.Joined = m.State.Joined, nil
	j.state = m.State
	for group, of := range j.state.Groups {
		// How far an intent came is unknown.
		if m.Intent != nil || now.Sub(of.At) < readLag {
			of.Doubt = true
			j.state.Groups[group] = of
		}
	}
	return joined, true, nil
}

// save keeps a state, and what is about to be done; nil: it is done.
func (j *journal) save(ctx context.Context, s resolve.State, joined []string, i *Intent) error {
	s.Joined = joined
	data, err := json.Marshal(Saved{resolve.Schema, j.version, s, i})
	if err != nil {
		return fmt.Errorf("encode what is handed on: %w", err)
	}
	if err := j.guard.call(ctx, func(ctx context.Context) error { return j.memory.Save(ctx, data) }); err != nil {
		return fmt.Errorf("keep what is handed on: %w", err)
	}
	return nil
}

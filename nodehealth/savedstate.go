package nodehealth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	saveTimeout = 10 * time.Second
	// durableTimeout is the maximum wait until an order is durable.
	durableTimeout = 10 * time.Second
	durableEvery   = 20 * time.Millisecond
)

// savedState is the saved state of a Loop.
type savedState struct {
	Judge judge.State `json:"judge"`
	// Cordoned are the nodes that may have our cordon.
	Cordoned []string `json:"cordoned,omitempty"`
	// History holds the actions on the nodes, oldest first.
	History []api.HealthHistory `json:"history,omitempty"`
}

// keeper passes the newest state to the goroutine that saves. It numbers the states.
type keeper struct {
	wake chan struct{} // holds one token if there is something to save

	mu    sync.Mutex
	data  []byte
	gen   uint64 // number of data, from 1
	saved uint64 // number of the newest durable state
}

func newKeeper() *keeper { return &keeper{wake: make(chan struct{}, 1)} }

// setState accepts the current state and returns its number. An unchanged state keeps its number.
func (k *keeper) setState(data []byte) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if bytes.Equal(data, k.data) && k.gen > 0 {
		return k.gen
	}
	k.data = data
	k.gen++
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return k.gen
}

func (k *keeper) newest() ([]byte, uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.data, k.gen
}

func (k *keeper) durable(gen uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.saved = max(k.saved, gen)
}

// isDurable reports whether a state is durable.
func (k *keeper) isDurable(gen uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return gen > 0 && gen <= k.saved
}

// memory stores the judge's state and the cordons over restarts and takeovers. The Loop's goroutine
// owns everything except run.
type memory struct {
	*shared
	keeper     *keeper
	cordons    *cordons
	executions executions
	announcer  *announcer
	history    *history
	status     api.HealthMemory // without Held
	failed     uint64           // number of failed saves
}

// load retries until it succeeds or ctx ends.
func (m *memory) load(ctx context.Context) (data []byte, ok bool, err error) {
	for pause := retryFirst; ; pause = min(2*pause, retryLast) {
		try, cancel := context.WithTimeout(ctx, saveTimeout)
		data, ok, err = m.world.Memory.Load(try)
		cancel()
		if err == nil {
			return data, ok, nil
		}
		m.log.Error("load node health state failed", "err", err)
		if !retry.Pause(ctx, pause) {
			return nil, false, context.Cause(ctx)
		}
	}
}

// withoutHistory returns a judge without a history. Its attempt numbers begin at the current time, so that
// they differ from those of an earlier judge, which providers may have stored.
func withoutHistory(now time.Time, p judge.Policy) *judge.Judge {
	s := judge.New(p).State()
	s.Attempts = uint64(max(0, now.Unix()))
	j, err := judge.Restore(now, p, s)
	if err != nil {
		return judge.New(p)
	}
	return j
}

// queueSave saves the current state if it changed, and returns its number. New orders and cordons in
// it wait until it is durable.
func (m *memory) queueSave(now time.Time, j *judge.Judge) uint64 {
	data, err := json.Marshal(savedState{Judge: j.State(), Cordoned: slices.Sorted(maps.Keys(m.cordons.nodes)), History: m.history.entries})
	if err != nil {
		m.announcer.alarm(now, api.HealthAlarm{Key: "memory", Why: fmt.Sprintf("encode the state: %v", err)})
		return 0
	}
	gen := m.keeper.setState(data)
	m.executions.saving(gen)
	m.cordons.saving(gen)
	return gen
}

func (m *memory) run(ctx context.Context) {
	for {
		select {
		case <-m.keeper.wake:
		case <-ctx.Done():
			return
		}
		for pause := retryFirst; !m.save(ctx); pause = min(2*pause, retryLast) {
			if !retry.Pause(ctx, pause) {
				return
			}
		}
	}
}

// save reports whether the newest state is durable.
func (m *memory) save(ctx context.Context) bool {
	data, gen := m.keeper.newest()
	try, cancel := context.WithTimeout(ctx, saveTimeout)
	err := m.world.Memory.Save(try, data)
	cancel()
	if err == nil {
		m.keeper.durable(gen)
	}
	if ctx.Err() != nil {
		return true
	}
	return m.mail.notify(ctx, func(now time.Time) { m.saved(now, err) }) != nil || err == nil
}

// saved records the result of a save.
func (m *memory) saved(now time.Time, err error) {
	if err == nil {
		m.status.Saved, m.status.Err = now, ""
		delete(m.announcer.alarms, "memory")
		return
	}
	m.status.Err = prose.Clip(err.Error(), api.MaxWhy)
	m.failed++
	m.announcer.alarm(now, api.HealthAlarm{Key: "memory", Why: "save the state failed, so no order is carried out: " + m.status.Err})
}

// awaitDurable waits until a state is durable, for at most durableTimeout.
func (m *memory) awaitDurable(ctx context.Context, gen uint64) error {
	ctx, cancel := context.WithTimeout(ctx, durableTimeout)
	defer cancel()
	for !m.keeper.isDurable(gen) {
		select {
		case <-m.mail.ended:
			return ErrNotRunning
		default:
		}
		if !retry.Pause(ctx, durableEvery) {
			return fmt.Errorf("done but not saved yet, so a restart may lose it: %w", context.Cause(ctx))
		}
	}
	return nil
}

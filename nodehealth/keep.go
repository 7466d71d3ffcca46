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

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

const (
	saveTimeout = 10 * time.Second
	retryFirst  = time.Second
	retryLast   = 15 * time.Second
)

// kept is what a Loop must not forget.
type kept struct {
	Judge judge.State `json:"judge"`
	// Cordoned are the nodes that may have our cordon.
	Cordoned []string `json:"cordoned,omitempty"`
}

// keeper hands the newest state to the goroutine that saves, and numbers them.
type keeper struct {
	wake chan struct{} // holds one token if there is something to save

	mu    sync.Mutex
	data  []byte
	gen   uint64 // of data, from 1
	saved uint64 // the newest one that is durable
}

func newKeeper() *keeper { return &keeper{wake: make(chan struct{}, 1)} }

// put takes the state of now, and returns its number; that of one that is the same as
// the one before is the same.
func (k *keeper) put(data []byte) uint64 {
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

// loaded notes what is durable already.
func (k *keeper) loaded(data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.data, k.gen, k.saved = data, 1, 1
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

// is reports whether a state is durable.
func (k *keeper) is(gen uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return gen > 0 && gen <= k.saved
}

// recall goes on from what was saved. What cannot be read is told, and forgotten: the
// drain records still keep a repair from being begun twice.
func (l *Loop) recall(ctx context.Context) error {
	data, ok, err := l.load(ctx)
	if err != nil {
		return err
	}
	l.judge = l.fresh()
	if !ok {
		return nil
	}
	if err := l.restore(data); err != nil {
		l.judge = l.fresh()
		l.announcer.alarm(l.now(), Alarm{Key: "forgotten", Why: "what was remembered cannot be read, and is forgotten: " + err.Error()})
		return nil
	}
	l.keeper.loaded(data)
	return nil
}

// fresh returns a judge that remembers nothing, and does not name its attempts as an
// earlier one did, whom providers and workflows may remember.
func (l *Loop) fresh() *judge.Judge {
	s := judge.New(l.policy).State()
	s.Attempts = uint64(max(0, l.now().Unix()))
	j, err := judge.Restore(l.now(), l.policy, s)
	if err != nil {
		return judge.New(l.policy)
	}
	return j
}

// load tries until it has an answer or ctx ends.
func (l *Loop) load(ctx context.Context) (data []byte, ok bool, err error) {
	for pause := retryFirst; ; pause = min(2*pause, retryLast) {
		try, cancel := context.WithTimeout(ctx, saveTimeout)
		data, ok, err = l.world.Memory.Load(try)
		cancel()
		if err == nil {
			return data, ok, nil
		}
		l.log.Error("node health cannot load what it remembers", "err", err)
		if !wait(ctx, pause) {
			return nil, false, context.Cause(ctx)
		}
	}
}

func (l *Loop) restore(data []byte) error {
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return err
	}
	now := l.now()
	j, err := judge.Restore(now, l.policy, k.Judge)
	if err != nil {
		return err
	}
	l.judge, l.changed = j, true
	for _, n := range k.Judge.Nodes {
		if n.Born != "" {
			l.inventory.named[n.Node.ID] = true
		}
		if n.State == judge.Quarantined {
			l.cordons[n.Node.ID] = &cordon{}
		}
		if n.Repair != nil {
			l.begun[n.Repair.Attempt] = n.Repair.Since
		}
	}
	for _, id := range k.Cordoned {
		l.cordons[id] = &cordon{may: true}
	}
	for _, p := range k.Judge.Pauses {
		if p.Owner == drainOwner {
			l.pauses[p.Node] = p.Until
		}
	}
	return nil
}

// remember has the state of now saved, if it is another one. What was ordered before
// waits for that.
func (l *Loop) remember() uint64 {
	k := kept{Judge: l.judge.State(), Cordoned: slices.Sorted(maps.Keys(l.cordons))}
	data, err := json.Marshal(k)
	if err != nil {
		l.announcer.alarm(l.last, Alarm{Key: "memory", Why: fmt.Sprintf("what is to be remembered cannot be written: %v", err)})
		return 0
	}
	gen := l.keeper.put(data)
	for _, e := range l.efforts {
		if e.gen == 0 {
			e.gen = gen
		}
	}
	for _, c := range l.cordons {
		if c.gen == 0 {
			c.gen = gen
		}
	}
	return gen
}

// keep saves what remember hands over, until ctx ends.
func (l *Loop) keep(ctx context.Context) {
	for {
		select {
		case <-l.keeper.wake:
		case <-ctx.Done():
			return
		}
		for pause := retryFirst; !l.save(ctx); pause = min(2*pause, retryLast) {
			if !wait(ctx, pause) {
				return
			}
		}
	}
}

// save reports whether the newest state is durable.
func (l *Loop) save(ctx context.Context) bool {
	data, gen := l.keeper.newest()
	try, cancel := context.WithTimeout(ctx, saveTimeout)
	err := l.world.Memory.Save(try, data)
	cancel()
	if err == nil {
		l.keeper.durable(gen)
	}
	if ctx.Err() != nil {
		return true
	}
	return l.mail.send(ctx, func(now time.Time, _ *judge.Judge) []judge.Event { l.wasSaved(now, err); return nil }) != nil || err == nil
}

func (l *Loop) wasSaved(now time.Time, err error) {
	if err == nil {
		l.memory.Saved, l.memory.Err = now, ""
		l.announcer.calm("memory")
		return
	}
	l.memory.Err = cut(err.Error())
	l.announcer.counts.saveErrors++
	l.announcer.alarm(now, Alarm{Key: "memory", Why: "what is to be remembered cannot be saved, so nothing is carried out: " + l.memory.Err})
}

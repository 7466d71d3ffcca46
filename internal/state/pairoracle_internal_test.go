package state

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/pooltest/memory"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// answer is what an app's signal last returned to a process.
type answer struct {
	known bool // a value, or no opinion
	seen  bool // there was one
	began time.Time
}

// need is the sum of what the signals last answered, from a time on.
type need struct {
	at    time.Time
	nodes int
}

// breach notes the first thing that must not be.
func (w *pair) breach(format string, args ...any) {
	if w.broken == "" {
		w.broken = time.Since(w.began).String() + ": " + fmt.Sprintf(format, args...)
	}
}

const leaseKey = "lease.pool.web"

// recordOf reads a drain record, and the epoch that it has.
func recordOf(node string, value []byte) (drain.Record, uint64, error) {
	s, err := decodeSealed(value)
	if err != nil {
		return drain.Record{}, 0, err
	}
	r, err := decodeDrain(node, s.body)
	return r, s.epoch, err
}

// groupsText shows the groups as the provider has them.
func (w *pair) groupsText() (text string) {
	for _, g := range w.groups {
		s := w.real(g)
		text += fmt.Sprintf(" %s: target %d of %d to %d", s.ID, s.Target, s.Min, s.Max)
		for _, i := range s.Instances {
			text += fmt.Sprintf(", %s %s %v", i.ID, i.State, i.Weight)
		}
	}
	return text
}

// recordsText shows the drain records.
func (w *pair) recordsText() (text string) {
	for _, k := range w.model.contents([]string{"drain.web.>", leaseKey}, 0) {
		at := w.model.read(k.Name, 0).at
		text += fmt.Sprintf("%s at %v: %s\n", k.Name, at.Sub(w.began), k.Value)
	}
	return text
}

// leaving is the weight of the nodes that have a drain record of the holder's term. One of an
// earlier term was late: the holder does not follow it, and the next one discards it.
func (w *pair) leaving() (sum float64) {
	c, err := decodeClaim(w.model.read(leaseKey, 0).entry.value)
	if err != nil {
		return 0 // there was no holder yet
	}
	for _, k := range w.model.contents([]string{"drain.web.>"}, 0) {
		if r, epoch, err := recordOf(strings.TrimPrefix(k.Name, "drain.web."), k.Value); err == nil && epoch == c.Epoch {
			sum += r.Weight
		}
	}
	return sum
}

// real is a group as the provider has it.
func (w *pair) real(g *memory.Group) pools.GroupSnapshot {
	s, err := g.Other().Snapshot(w.ctx)
	if err != nil && w.ctx.Err() == nil {
		w.breach("read %s: %v", g.ID(), err)
	}
	return s
}

func (w *pair) answered(*process, string, time.Time, sigproto.Response, error) {}

// act has the provider do something for a process.
func (w *pair) act(_ *process, _ string, g *memory.Group, do func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.real(g).Target
	err := do()
	switch after := w.real(g).Target; {
	case after > before:
		w.raises++
	case after < before:
		w.lowered++
	}
	return err
}

func (w *pair) ignorance(*process) string { return "" }

// write writes to the bucket.
func (w *pair) write(p *process, _, key string, value []byte, revision uint64) (uint64, error) {
	next, err := w.model.write(key, value, revision, p)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
	case key == leaseKey:
		w.takeovers++
	case strings.HasPrefix(key, "drain.web."):
		w.chosen++
	}
	return next, err
}

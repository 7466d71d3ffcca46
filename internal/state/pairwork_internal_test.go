package state

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// maxWaiting bounds the copies of a pair that wait at once.
const maxWaiting = 6

// work is what the copies of a pair do, and what holds back the machines that they need.
type work struct {
	r       *rand.Rand
	waiting []fit.Copy
	unsafe  map[string]bool // nodes that are not safe to evict
	batch   map[string]int  // the part of the tasks of a node that ends by itself
	pins    bool            // on this day, an operator pins the target: it may fall below the need
	pin     *api.Pin
}

func newWork(seed uint64) work {
	r := rand.New(rand.NewPCG(seed, 3)) // of its own, so that the other events of a day stay the same
	return work{r: r, pins: r.IntN(5) == 0, unsafe: map[string]bool{}, batch: map[string]int{}}
}

// limits draws what holds back the changes of the target.
func (k *work) limits(p *api.DecisionPolicy, tick time.Duration) {
	p.Cooldown = api.Cooldown{Up: tick * time.Duration(max(0, k.r.IntN(5)-2)), Down: tick * time.Duration(max(0, k.r.IntN(6)-2))}
	p.Limits.MaxAdd = []float64{api.Unlimited, api.Unlimited, 2, 5}[k.r.IntN(4)]
}

// changeWork makes a random change of the copies of a pair, or of the pin. The caller holds the lock.
func (w *pair) changeWork(ids []string) {
	k := &w.work
	switch what := k.r.IntN(4); {
	case what == 0 && k.pins:
		if k.pin = nil; k.r.IntN(2) == 0 {
			limits := w.config.Policy.Limits
			k.pin = &api.Pin{Note: api.Note{By: "me"}, Target: limits.Min + float64(k.r.IntN(int(limits.Max-limits.Min)+1))}
		}
		w.noteLocked("the pin is %+v", k.pin)
	case what <= 1:
		size := []float64{1, 2, 3, 4, 50}[k.r.IntN(5)]
		for range min(1+k.r.IntN(4), maxWaiting-len(k.waiting)) {
			k.waiting = append(k.waiting, fit.Copy{App: "web", Index: len(k.waiting), Footprint: resource.Vector{resource.CPUs: size}})
		}
		w.noteLocked("%d copies wait, the last of %v cpus", len(k.waiting), size)
	case len(ids) == 0:
	case what == 2:
		id := ids[k.r.IntN(len(ids))]
		k.unsafe[id] = !k.unsafe[id]
	case what == 3:
		k.batch[ids[k.r.IntN(len(ids))]] = k.r.IntN(3)
	}
}

// placeWaiting puts waiting copies on nodes with room, on a day with a scheduler. At rest they end at once.
func (w *pair) placeWaiting(facts []api.NodeFacts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.scheduled {
		return
	}
	w.work.waiting = slices.DeleteFunc(w.work.waiting, func(c fit.Copy) bool {
		cpus := c.Footprint[resource.CPUs]
		for _, f := range facts {
			if f.Draining || f.Resources[resource.CPUs]-float64(w.tasks[f.ID]) < cpus {
				continue
			}
			if !w.resting {
				w.tasks[f.ID] += int(cpus)
			}
			return true
		}
		return false
	})
}

// waits returns the copies without a place.
func (w *pair) waits() []fit.Copy {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.work.waiting)
}

// orders returns what an operator has ordered.
func (w *pair) orders() api.Orders {
	w.mu.Lock()
	defer w.mu.Unlock()
	return api.Orders{Pin: w.work.pin}
}

// restWork ends what holds back the pool, and the copies that run. The caller holds the lock.
func (w *pair) restWork() {
	w.resting, w.work.pin = true, nil
	clear(w.tasks)
	clear(w.work.unsafe)
	clear(w.work.batch)
}

// unplaced reports whether a copy waits that a machine of the pair can hold. The caller holds the lock.
func (w *pair) unplaced() bool {
	return w.scheduled && slices.ContainsFunc(w.work.waiting, func(c fit.Copy) bool { return c.Footprint[resource.CPUs] <= cpusOfNode*w.heaviest })
}

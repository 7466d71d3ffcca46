package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Intervals and bounds of the measurement of disk use.
const (
	measureStep  = time.Second      // between two steps
	measureEvery = 30 * time.Second // between two rounds, while the disk has room
	stepEntries  = 1_000            // files and folders in a step
	hastyEntries = 20_000           // the same on a nearly full disk
	endLimit     = time.Minute      // how long the end of one copy delays that of another
)

// diskLimits compares what copies use of the disk with the disk that they request. While the disk has room, it only logs
// a copy that uses more. On a nearly full disk it ends the copy that exceeds its request by most.
type diskLimits struct {
	dir string // of the copies
	log *slog.Logger

	mu     sync.Mutex
	limits map[string]int64 // guarded by mu: bytes by instance, of running copies with a request

	// Used by run only:
	began  time.Time
	round  *useRound        // nil: none is in progress
	before map[string]int64 // bytes by instance, of the round before
	logged map[string]bool  // instances
	ending string           // instance that has to end
	since  time.Time        // of ending
}

func newDiskLimits(dir string, log *slog.Logger) *diskLimits {
	return &diskLimits{dir: dir, log: log, limits: map[string]int64{}, logged: map[string]bool{}}
}

// set adds a running copy. A request of 0 MB is no limit.
func (d *diskLimits) set(instance string, megabytes float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if megabytes > 0 {
		d.limits[instance] = int64(megabytes * (1 << 20))
	}
}

func (d *diskLimits) remove(instance string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.limits, instance)
}

func (d *diskLimits) all() map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.limits)
}

// run measures until ctx ends. It reports each copy that has to end.
func (d *diskLimits) run(ctx context.Context, reported chan<- event) {
	again := time.NewTicker(measureStep)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			if d.round != nil {
				d.round.close()
			}
			return
		case <-again.C:
		}
		var s unix.Statfs_t
		low := unix.Statfs(d.dir, &s) == nil && isLow(s.Bavail, s.Blocks, uint64(s.Bsize))
		if instance, why := d.step(time.Now(), low); instance != "" {
			select {
			case reported <- event{instance: instance, overuse: why}:
			case <-ctx.Done():
			}
		}
	}
}

// isLow reports whether a disk is nearly full: less than 2 % of it is free, or less than 128 MB and 10 %.
func isLow(free, blocks, size uint64) bool {
	return free < max(blocks/50, min((128<<20)/max(size, 1), blocks/10))
}

// step continues the measurement. It returns a copy that has to end, and why; "" if none has to.
func (d *diskLimits) step(now time.Time, low bool) (instance, why string) {
	limits := d.all()
	if _, runs := limits[d.ending]; runs && now.Sub(d.since) < endLimit {
		return "", "" // its end frees space
	}
	d.ending = ""
	if d.round == nil {
		if !low && now.Sub(d.began) < measureEvery {
			return "", ""
		}
		d.began, d.round = now, &useRound{hasty: low, left: slices.Sorted(maps.Keys(limits)), uses: map[string]int64{}}
	}
	entries := stepEntries
	if low {
		entries = hastyEntries
	}
	if !d.round.step(d.dir, entries) {
		return "", ""
	}
	hasty, uses := d.round.hasty, d.round.uses
	d.logExceeded(limits, uses)
	if low && hasty {
		if instance = worst(limits, uses, d.before); instance != "" {
			why = fmt.Sprintf("it used %d MB of disk, its request is %d MB, and the disk of the node is full", uses[instance]>>20, limits[instance]>>20)
			d.ending, d.since = instance, now
		}
	}
	d.before, d.round = uses, nil
	return instance, why
}

// worst returns the copy that exceeds its limit by most in both of two rounds; "" if none does. A file that is moved
// during a round may count twice in it.
func worst(limits, uses, before map[string]int64) (instance string) {
	most := int64(0)
	for _, one := range slices.Sorted(maps.Keys(limits)) {
		if over := min(uses[one], before[one]) - limits[one]; over > most {
			instance, most = one, over
		}
	}
	return instance
}

// logExceeded logs each copy once that exceeds its limit.
func (d *diskLimits) logExceeded(limits, uses map[string]int64) {
	maps.DeleteFunc(d.logged, func(instance string, _ bool) bool { _, runs := limits[instance]; return !runs })
	for instance, limit := range limits {
		if uses[instance] > limit && !d.logged[instance] {
			d.logged[instance] = true
			d.log.Warn("app instance uses more disk than it requests: on a full disk, the agent ends it",
				"instance", instance, "used_mb", uses[instance]>>20, "requested_mb", limit>>20)
		}
	}
}

// useRound is one measurement of all copies.
type useRound struct {
	hasty    bool     // the disk was nearly full at its start
	left     []string // instances to measure
	instance string   // of current
	current  *folderUse
	uses     map[string]int64 // bytes by instance
}

// step measures so many more entries. It reports whether the round is done.
func (r *useRound) step(dir string, entries int) (done bool) {
	for entries > 0 {
		if r.current == nil {
			if len(r.left) == 0 {
				return true
			}
			r.instance, r.left = r.left[0], r.left[1:]
			entries--
			r.current, _ = newFolderUse(filepath.Join(dir, r.instance)) // nil if the copy has ended
			continue
		}
		if entries, done = r.current.step(entries); done {
			r.uses[r.instance], r.current = r.current.bytes, nil
		}
	}
	return false
}

func (r *useRound) close() {
	if r.current != nil {
		r.current.close()
	}
}

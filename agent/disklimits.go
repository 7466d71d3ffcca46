package agent

import (
	"cmp"
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
	leastUse     = 1 << 20          // bytes: a smaller excess or growth does not end a copy
	endLimit     = time.Minute      // how long the end of one copy delays that of another
	fillShare    = 10               // a copy fills the disk if its growth is at least this part of the used space: a tenth
	restLimit    = time.Minute      // how long a disk is nearly full before a copy ends that does not fill it
)

// diskLimits compares what copies use of the disk with the disk that they request. While the disk has room, it only logs
// a copy that uses more. On a nearly full disk it ends the copies that exceed their request, one at a time. The first is
// the one that has grown most since the disk had room.
type diskLimits struct {
	dir string // of the copies
	log *slog.Logger

	mu     sync.Mutex
	limits map[string]int64 // guarded by mu: bytes by instance, of running copies; 0 without a request

	// Used by run only:
	began  time.Time
	round  *useRound        // nil: none is in progress
	before map[string]int64 // bytes by instance, of the round before
	roomy  map[string]int64 // bytes by instance, of the last round while the disk had room
	had    int64            // bytes that were free then; 0 without such a round
	full   time.Time        // since when the disk is nearly full; zero: it has room
	logged map[string]bool  // instances
	ending string           // instance that has to end
	since  time.Time        // of ending
}

func newDiskLimits(dir string, log *slog.Logger) *diskLimits {
	return &diskLimits{dir: dir, log: log, limits: map[string]int64{}, logged: map[string]bool{}}
}

// set adds a running copy.
func (d *diskLimits) set(instance string, megabytes float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limits[instance] = int64(megabytes * (1 << 20))
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
		disk := diskSpace{} // of a disk that cannot be read, nothing is known: it counts as one with room
		if s := (unix.Statfs_t{}); unix.Statfs(d.dir, &s) == nil {
			disk = diskSpace{free: s.Bavail * uint64(s.Bsize), size: s.Blocks * uint64(s.Bsize)}
		}
		if instance, why := d.step(time.Now(), disk); instance != "" {
			select {
			case reported <- event{instance: instance, overuse: why}:
			case <-ctx.Done():
			}
		}
	}
}

// diskSpace is the space of a disk, in bytes.
type diskSpace struct{ free, size uint64 }

// low reports whether a disk is nearly full: less than 2 % of it is free, or less than 128 MB and 10 %.
func (s diskSpace) low() bool { return s.free < max(s.size/50, min(128<<20, s.size/10)) }

// step continues the measurement. It returns a copy that has to end, and why; "" if none has to.
func (d *diskLimits) step(now time.Time, disk diskSpace) (instance, why string) {
	low := disk.low()
	if !low {
		d.full = time.Time{}
	} else if d.full.IsZero() {
		d.full = now
	}
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
	d.round = nil
	d.logExceeded(limits, uses)
	if low && hasty {
		instance, why = d.choose(now, int64(disk.free), limits, uses)
	}
	if !low && !hasty {
		d.roomy, d.had = uses, int64(disk.free)
	}
	d.before = uses
	return instance, why
}

// choose returns the copy that has to end on a nearly full disk, and why. A copy that does not fill the disk has to end
// only if the end of those that do has not helped. Other processes may fill it, such as those of another agent.
func (d *diskLimits) choose(now time.Time, free int64, limits, uses map[string]int64) (instance, why string) {
	x := worst(limits, uses, d.before, d.roomy)
	fills := x.grown >= max(leastUse, (d.had-free)/fillShare)
	if x.instance == "" || !fills && now.Sub(d.full) < restLimit {
		return "", ""
	}
	d.ending, d.since = x.instance, now
	requested := "no disk"
	if limit := limits[x.instance]; limit > 0 {
		requested = fmt.Sprintf("%d MB", limit>>20)
	}
	return x.instance, fmt.Sprintf("the disk of its node had %d MB free: it used %d MB, %d MB of that new, and requested %s",
		free>>20, uses[x.instance]>>20, x.grown>>20, requested)
}

// excess is a copy that exceeds its limit.
type excess struct {
	instance string // "": none
	grown    int64  // bytes, since the disk had room; at least 0
	over     int64  // bytes, above its limit
}

// worst returns the copy that has grown most since the disk had room, of those that exceed their limit. Of copies that
// have not grown, it returns the one that exceeds its limit by most. It returns none if that copy was within its limit in
// the round before: a file that is moved during a round may count twice in it.
func worst(limits, uses, before, roomy map[string]int64) (most excess) {
	for _, one := range slices.Sorted(maps.Keys(limits)) {
		x := excess{one, max(0, uses[one]-roomy[one]), uses[one] - limits[one]}
		if x.over >= leastUse && cmp.Or(cmp.Compare(x.grown, most.grown), cmp.Compare(x.over, most.over)) > 0 {
			most = x
		}
	}
	if before[most.instance]-limits[most.instance] < leastUse {
		return excess{}
	}
	return most
}

// logExceeded logs each copy once that exceeds its request.
func (d *diskLimits) logExceeded(limits, uses map[string]int64) {
	maps.DeleteFunc(d.logged, func(instance string, _ bool) bool { _, runs := limits[instance]; return !runs })
	for instance, limit := range limits {
		if limit > 0 && uses[instance] > limit && !d.logged[instance] {
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

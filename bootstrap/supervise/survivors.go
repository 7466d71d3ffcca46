package supervise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// group identifies a process group that a launcher created. The number alone is not enough: it may be reused.
type group struct {
	id      int
	session int
	start   uint64 // start of the first member, clock ticks after boot
}

func groupOf(leader entry) group {
	return group{id: leader.group, session: leader.session, start: leader.start}
}

// owns reports whether a process is a member. No member started before the first one, and no member changes its session
// without leaving the group.
func (g group) owns(e entry) bool {
	return e.group == g.id && e.session == g.session && e.start >= g.start
}

// survivors describes the processes that must not survive: members of groups, carriers of a tag, and members of a
// cgroup. All three are needed: a process may leave its group, clear its environment or, with write access, enter
// another cgroup.
type survivors struct {
	groups map[int]group
	tag    string
	since  uint64 // clock ticks after boot; a process that started earlier does not count
	cgroup cgroup // removed with its members; empty: no cgroup
	killed killed // carriers of the tag; nil before clear
}

// killed has the start of processes that received SIGKILL, by pid. A process that is exiting still holds its files and
// ports, although the kernel no longer shows its tag.
type killed map[int]uint64

func (k killed) has(e entry) bool {
	start, ok := k[e.pid]
	return ok && start == e.start
}

// Pauses between two rounds of clear.
const (
	firstRoundPause = time.Millisecond
	maxRoundPause   = 20 * time.Millisecond
)

// clear kills survivors in rounds until two rounds in a row find none: one round may miss a process that forks and ends
// during the scan. After limit it returns ErrSurvivors.
func (q survivors) clear(limit time.Duration, scans *scans) error {
	q.killed = killed{}
	expired := time.NewTimer(limit)
	defer expired.Stop()
	pause := firstRoundPause
	for clean := 0; clean < 2; {
		found, err := q.round(scans)
		if err != nil {
			return fmt.Errorf("list processes: %w", err)
		}
		if found == 0 {
			clean++
			continue
		}
		clean = 0
		select {
		case <-expired.C:
			return fmt.Errorf("%w: %d after %s", ErrSurvivors, found, limit)
		case <-time.After(pause):
			pause = min(2*pause, maxRoundPause)
		}
	}
	return q.cgroup.remove() // only a file system error can fail here
}

// round sends SIGKILL to all survivors and returns their number. If it finds no survivor, it removes the cgroup.
func (q survivors) round(scans *scans) (found int, err error) {
	q.cgroup.kill()
	found, err = scans.search(q)
	if err != nil || found > 0 {
		return found, err
	}
	if errors.Is(q.cgroup.remove(), syscall.EBUSY) {
		return 1, nil // at least one process is still in it
	}
	return 0, nil
}

// killMember kills a process if it is one of the survivors. It reports whether it is, or may be: the next round checks
// a process with an unknown tag again. tag returns the tag of the process; it is called last because it is expensive.
func (q survivors) killMember(e entry, tag func() (value string, known bool)) bool {
	if e.start < q.since {
		return false
	}
	if g, ok := q.groups[e.group]; ok && g.owns(e) {
		// The whole group at once, so that no member can fork its way out. An error means that it is gone or not ours
		// to kill; the next round finds out.
		_ = syscall.Kill(-g.id, syscall.SIGKILL)
		return true
	}
	value, known := tag()
	if carries(value, q.tag) {
		q.kill(e)
		return true
	}
	return !known || q.killed.has(e)
}

// kill kills a process that carries the tag. It opens a handle first and then checks the tag again, so the signal
// cannot reach another process with a reused number.
func (q survivors) kill(e entry) {
	p, err := os.FindProcess(e.pid)
	if err != nil {
		return
	}
	defer p.Release()
	if value, _ := readTag(e.pid); carries(value, q.tag) {
		// An error means that it is gone or not ours to kill; the next round finds out.
		if p.Signal(syscall.SIGKILL) == nil && q.killed != nil {
			q.killed[e.pid] = e.start
		}
	}
}

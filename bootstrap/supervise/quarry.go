package supervise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// group is a process group that we made. The number alone would not do: it may
// be another's by the time it is looked up.
type group struct {
	id      int
	session int
	start   uint64 // of its first member, clock ticks after boot
}

func groupOf(leader entry) group {
	return group{id: leader.group, session: leader.session, start: leader.start}
}

// owns reports whether a process is a member: no member is older than the first
// one, and none changes its session without leaving the group.
func (g group) owns(e entry) bool {
	return e.group == g.id && e.session == g.session && e.start >= g.start
}

// quarry is what must not survive: the members of groups, who carries a tag, and a
// cgroup. Neither makes the others needless: a process may leave its group, clean its
// environment or, if it may write there, enter another cgroup.
type quarry struct {
	groups map[int]group
	tag    string
	since  uint64 // who started before, in clock ticks after boot, is none of ours
	cgroup cgroup // all in it, and it itself; empty: none
}

// Pauses between two rounds of clear.
const (
	firstRoundPause = time.Millisecond
	maxRoundPause   = 20 * time.Millisecond
)

// clear kills the quarry, round after round, until two rounds in a row find
// nothing of it: one may miss a process that forks and ends while it looks.
// It gives up after limit, with ErrSurvivors.
func (q quarry) clear(limit time.Duration, looks *looks) error {
	expired := time.NewTimer(limit)
	defer expired.Stop()
	pause := firstRoundPause
	for clean := 0; clean < 2; {
		found, err := q.round(looks)
		if err != nil {
			return fmt.Errorf("look for processes: %w", err)
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
	return q.cgroup.remove() // gone, unless something that is no process hinders
}

// round sends SIGKILL to all of the quarry that lives, and counts it. When none
// does, it removes the cgroup.
func (q quarry) round(looks *looks) (found int, err error) {
	q.cgroup.kill()
	found, err = looks.search(q)
	if err != nil || found > 0 {
		return found, err
	}
	if errors.Is(q.cgroup.remove(), syscall.EBUSY) {
		return 1, nil // somebody, at least, is still in it
	}
	return 0, nil
}

// meet kills a process if it is of the quarry, and reports whether it is, or may be: a
// process whose tag is unknown is met again by the next round. Tag returns the
// process's, which costs more than the rest.
func (q quarry) meet(e entry, tag func() (value string, known bool)) bool {
	if e.start < q.since {
		return false
	}
	if g, ok := q.groups[e.group]; ok && g.owns(e) {
		// The whole group at once, so that no member can fork its way out.
		// An error: it is gone, or not ours to kill; the next round tells.
		_ = syscall.Kill(-g.id, syscall.SIGKILL)
		return true
	}
	value, known := tag()
	if carries(value, q.tag) {
		q.kill(e.pid)
		return true
	}
	return !known
}

// kill kills a process that carries the tag. The handle comes first, then the
// second look: so the signal cannot reach another process of the same number.
func (q quarry) kill(pid int) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer p.Release()
	if value, _ := readTag(pid); carries(value, q.tag) {
		// An error: it is gone, or not ours to kill; the next round tells.
		_ = p.Signal(syscall.SIGKILL)
	}
}

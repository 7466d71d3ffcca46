package supervise

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// place is where a child starts: its cgroup, if it can have one.
type place struct {
	limits     Limits
	user       int // Spec.User
	cgroup     cgroup
	dir        *os.File // the cgroup's folder
	unenforced []error  // limits that do not hold, and why
	standIns   []rlimit // of each process, for limits that the cgroup cannot hold
}

// makePlace makes a child's cgroup, with as many of its limits as can be had.
func (l *Launcher) makePlace(name string, spec Spec) *place {
	p := &place{limits: spec.Limits, user: spec.User}
	if l.noCgroup != nil {
		p.leave(l.noCgroup)
		return p
	}
	p.cgroup = l.cgroup.child(name)
	err := os.Mkdir(string(p.cgroup), 0o755)
	if err == nil {
		p.dir, err = os.Open(string(p.cgroup))
	}
	if err != nil {
		p.leave(fmt.Errorf("%w: %w", errNoCgroup, err))
		return p
	}
	p.limit(l.cgroup)
	return p
}

// limit writes the limits into the cgroup, which lies in another one.
func (p *place) limit(in cgroup) {
	for _, s := range p.limits.settings() {
		err := in.enable(s.controller)
		if err == nil {
			err = p.cgroup.write(s.file, s.value)
		}
		if err != nil {
			p.standIn(s.limit, err)
		}
	}
}

// leave gives the cgroup up, for a cause.
func (p *place) leave(cause error) {
	p.discard()
	p.unenforced, p.standIns = nil, nil // all of them, for this cause
	for _, s := range p.limits.settings() {
		p.standIn(s.limit, cause)
	}
}

// mapped is how many times the memory that a process uses it may map, where only that can
// be bounded: libraries map buffers for each core and use few of them.
const mapped = 4

// standIn notes that the cgroup cannot hold a limit, and why. The kernel's limit of each
// process stands in for it, if there is one.
func (p *place) standIn(limit string, why error) {
	switch {
	case limit == "":
		return
	case limit == limitProcesses && p.user != 0: // this user has no other processes
		p.standIns = append(p.standIns, rlimit{limitProcesses, unix.RLIMIT_NPROC, uint64(p.limits.Processes)})
		return
	case limit == limitMemory:
		most := mapped * uint64(p.limits.Memory)
		p.standIns = append(p.standIns, rlimit{"memory of each process", unix.RLIMIT_DATA, most})
		why = fmt.Errorf("%w: each process may map %d MiB instead", why, most>>20)
	}
	p.lacks(limit, why)
}

// rlimits returns the limits that hold for each process.
func (p *place) rlimits() []rlimit { return append(p.limits.rlimits(), p.standIns...) }

// discard removes the cgroup, which nobody is in.
func (p *place) discard() {
	p.close()
	_ = p.cgroup.remove() // an error: the launcher's end will
	p.cgroup = ""
}

// close closes the folder, which only the start needs.
func (p *place) close() {
	if p.dir != nil {
		p.dir.Close()
		p.dir = nil
	}
}

func (p *place) lacks(limit string, why error) {
	p.unenforced = append(p.unenforced, fmt.Errorf("%s: %w", limit, why))
}

// describe returns the limits that do not hold in one line; empty: all hold.
func (p *place) describe() string {
	err := errors.Join(p.unenforced...)
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

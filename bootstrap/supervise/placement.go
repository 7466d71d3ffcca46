package supervise

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// placement is where a child starts: its cgroup, if available, and its limits.
type placement struct {
	limits     Limits
	user       int // Spec.User
	detached   bool
	cgroup     cgroup
	dir        *os.File // the open folder of the cgroup
	unenforced []error  // limits that are not enforced, and why
	fallbacks  []rlimit // per-process limits that replace limits of the cgroup
}

// newPlacement creates a child's cgroup and sets the limits that can be set.
func (l *Launcher) newPlacement(name string, spec Spec) *placement {
	p := &placement{limits: spec.Limits, user: spec.User, detached: spec.Detached != ""}
	if l.noCgroup != nil {
		p.leave(l.noCgroup)
		return p
	}
	if spec.NoCgroup {
		return p
	}
	p.cgroup = l.cgroup.child(name)
	if p.detached {
		p.cgroup = l.detachedCgroup(spec.Detached)
	}
	err := os.Mkdir(string(p.cgroup), 0o755)
	if err == nil {
		p.dir, err = os.Open(string(p.cgroup))
	}
	if err != nil {
		p.leave(fmt.Errorf("%w: %w", errNoCgroup, err))
		return p
	}
	p.limit(p.cgroup.parent())
	return p
}

// limit writes the limits into the cgroup, whose parent is in.
func (p *placement) limit(in cgroup) {
	for _, s := range p.limits.settings() {
		err := in.enable(s.controller)
		if err == nil {
			err = p.cgroup.write(s.file, s.value)
		}
		if err != nil {
			p.useFallback(s.limit, err)
		}
	}
}

// leave gives up the cgroup because of cause.
func (p *placement) leave(cause error) {
	p.discard()
	p.unenforced, p.fallbacks = nil, nil // replaced: all limits are affected by this cause
	for _, s := range p.limits.settings() {
		p.useFallback(s.limit, cause)
	}
}

// dataFactor is the ratio of the memory that a process may map to the memory that it may use. It applies where only
// mapping can be limited: libraries map buffers for each core and use few of them.
const dataFactor = 4

// useFallback records that the cgroup cannot enforce a limit, and why. A per-process limit of the kernel replaces it where
// one exists.
func (p *placement) useFallback(limit string, why error) {
	switch {
	case limit == "":
		return
	case limit == limitProcesses && p.user != 0: // this user has no other processes
		p.fallbacks = append(p.fallbacks, rlimit{limitProcesses, unix.RLIMIT_NPROC, uint64(p.limits.Processes)})
		return
	case limit == limitMemory:
		most := dataFactor * uint64(p.limits.Memory)
		p.fallbacks = append(p.fallbacks, rlimit{"memory of each process", unix.RLIMIT_DATA, most})
		why = fmt.Errorf("%w: each process may map %d MiB instead", why, most>>20)
	}
	p.addUnenforced(limit, why)
}

// rlimits returns the limits that apply to each process.
func (p *placement) rlimits() []rlimit { return append(p.limits.rlimits(), p.fallbacks...) }

// discard removes the cgroup, which must be empty.
func (p *placement) discard() {
	p.close()
	_ = p.cgroup.remove() // an error is ignored: the end of the launcher removes it
	p.cgroup = ""
}

// close closes the folder, which only the start needs.
func (p *placement) close() {
	if p.dir != nil {
		p.dir.Close()
		p.dir = nil
	}
}

func (p *placement) addUnenforced(limit string, why error) {
	p.unenforced = append(p.unenforced, fmt.Errorf("%s: %w", limit, why))
}

// describe returns the limits that are not enforced, in one line; "" if all are.
func (p *placement) describe() string {
	err := errors.Join(p.unenforced...)
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

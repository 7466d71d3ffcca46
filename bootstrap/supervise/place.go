package supervise

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// place is where a child starts: its cgroup, if it can have one.
type place struct {
	cgroup     cgroup
	dir        *os.File // the cgroup's folder
	unenforced []error  // limits that do not hold, and why
}

// makePlace makes a child's cgroup, with as many of its limits as can be had.
func (l *Launcher) makePlace(name string, limits Limits) *place {
	p := &place{}
	if l.noCgroup != nil {
		p.leave(limits, l.noCgroup)
		return p
	}
	p.cgroup = l.cgroup.child(name)
	err := os.Mkdir(string(p.cgroup), 0o755)
	if err == nil {
		p.dir, err = os.Open(string(p.cgroup))
	}
	if err != nil {
		p.leave(limits, fmt.Errorf("%w: %w", errNoCgroup, err))
		return p
	}
	p.limit(l.cgroup, limits)
	return p
}

// limit writes the limits into the cgroup, which lies in another one.
func (p *place) limit(in cgroup, limits Limits) {
	for _, s := range limits.settings() {
		err := in.enable(s.controller)
		if err == nil {
			err = p.cgroup.write(s.file, s.value)
		}
		if err != nil && s.limit != "" {
			p.lacks(s.limit, err)
		}
	}
}

// leave gives the cgroup up, for a cause.
func (p *place) leave(limits Limits, cause error) {
	p.discard()
	p.unenforced = nil // all of them, for this cause
	for _, s := range limits.settings() {
		if s.limit != "" {
			p.lacks(s.limit, cause)
		}
	}
}

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

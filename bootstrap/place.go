package bootstrap

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxRivals bounds how many others may hold addresses of one signal on a host.
const maxRivals = 9

// place is where a signal answers: the app part that it is told, and the address
// that it makes of it.
type place struct {
	app     string
	address string
}

// settle returns the place for the signal's next start: where it was before, else
// the documented one, else that of APP~1 and so on, the first that nobody holds,
// on this host or among the seat's other processes. Nothing is ever started over
// a socket that is held.
func (s *seat) settle(sig *signal) (place, error) {
	table, err := readUnixTable()
	if err != nil {
		return place{}, err
	}
	s.mu.Lock()
	at, inode, err := s.settleLocked(sig, table)
	s.mu.Unlock()
	if err != nil {
		return place{}, fmt.Errorf("socket @%s is held by process %d%w", sig.plan.Address, anyHolder(inode), err)
	}
	if inode != 0 {
		s.log.Warn("signal's socket is held by somebody else, another is taken",
			"app", s.app, "holder", anyHolder(inode), "socket", at.address)
	}
	return at, nil
}

// settleLocked reserves a place, and returns the inode of the stranger that holds
// the documented one, if one does.
func (s *seat) settleLocked(sig *signal, table unixTable) (at place, stranger uint64, err error) {
	places := []place{sig.plan.place(0)}
	if sig.plan.movable() {
		if was := sig.at(); was.address != "" {
			places = append([]place{was}, places...)
		}
		for n := 1; n <= maxRivals; n++ {
			places = append(places, sig.plan.place(n))
		}
	}
	for _, at := range places {
		if owner := s.reserved[at.address]; owner != nil && owner != sig {
			continue
		}
		if inode, _, held := table.holder(at.address); held {
			if at.address == sig.plan.Address {
				stranger = inode
			}
			continue
		}
		s.reserveLocked(sig, at)
		return at, stranger, nil
	}
	if !sig.plan.movable() {
		return place{}, stranger, errors.New(", and it cannot have another")
	}
	return place{}, stranger, fmt.Errorf(", and so are %d others of its kind", maxRivals)
}

func (s *seat) reserveLocked(sig *signal, at place) {
	s.releaseLocked(sig)
	s.reserved[at.address] = sig
	sig.move(at)
}

// releaseLocked frees the place of a signal.
func (s *seat) releaseLocked(sig *signal) {
	if was := sig.at(); s.reserved[was.address] == sig {
		delete(s.reserved, was.address)
	}
}

// What hinders a start from being an answer.
var (
	errSilent   = errors.New("nobody listens")
	errStranger = errors.New("another process listens at the signal's socket")
)

// listens returns nil if what was started as this group listens at the address.
// It looks at the kernel's tables only, so a signal that accepts exactly once
// is not disturbed.
func listens(group int, address string) error {
	table, err := readUnixTable()
	if err != nil {
		return err
	}
	inode, listening, held := table.holder(address)
	switch {
	case !held || !listening:
		return fmt.Errorf("%w at @%s", errSilent, address)
	case !groupHas(group, inode):
		return fmt.Errorf("%w: process %d at @%s", errStranger, anyHolder(inode), address)
	}
	return nil
}

// anyHolder returns the process that has the socket open, 0 if it cannot be told.
func anyHolder(inode uint64) int {
	if inode == 0 {
		return 0
	}
	return processWith(inode, func(int) bool { return true })
}

// groupOf returns the process group of a process, 0 if there is no such process.
func groupOf(pid int) int {
	group, err := unix.Getpgid(pid)
	if err != nil {
		return 0
	}
	return group
}

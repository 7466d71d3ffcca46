package bootstrap

import (
	"errors"
	"fmt"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// maxAlternatives is the number of alternative addresses of a signal on a host. Each pool of this name on the host needs one: those of
// all who try "weir up" on it.
const maxAlternatives = 99

// place is where a signal listens: its app argument and the resulting address.
type place struct {
	app     string
	address string
}

// settle returns the address for the signal's next start. It is the previous one, or else the documented one, or
// else that of APP~1 and so on. It must be free on this host and among the app's other processes. A socket in use is
// never replaced.
func (s *appProcess) settle(sig *signal) (place, error) {
	table, err := readSockets()
	if err != nil {
		return place{}, err
	}
	followed := s.stream.allFollowed()
	s.mu.Lock()
	sibling := s.reserved[sig.plan.Address]
	at, err := s.settleLocked(sig, table, followed)
	s.mu.Unlock()
	if err != nil {
		return place{}, sig.noPlaceError(err)
	}
	if foreign, held := table[sig.plan.Address]; held && (sibling == nil || sibling == sig) && at.address != sig.plan.Address {
		s.log.Warn("signal socket in use, using another",
			"app", s.app, "holder", anyHolder(foreign.inode), "socket", at.address)
	}
	return at, nil
}

// noPlaceError returns the error of a signal without a free address. obstacle is the reason at the documented
// address.
func (sig *signal) noPlaceError(obstacle error) error {
	if h, is := errors.AsType[*heldError](obstacle); is {
		h.holder = anyHolder(h.inode)
	}
	if !sig.plan.movable() {
		return fmt.Errorf("%w, and the signal cannot use another socket", obstacle)
	}
	return fmt.Errorf("%w, and %d alternative sockets are in use too", obstacle, maxAlternatives)
}

// settleLocked reserves an address, or returns the obstacle at the documented one.
func (s *appProcess) settleLocked(sig *signal, table sockets, followed int) (place, error) {
	var obstacle error // at the documented address
	for _, at := range sig.places() {
		err := s.obstacleLocked(sig, at, table, followed)
		if err == nil {
			s.reserveLocked(sig, at)
			return at, nil
		}
		if at.address == sig.plan.Address {
			obstacle = err
		}
	}
	return place{}, obstacle
}

// places returns the addresses where a signal may start, in order of preference.
func (sig *signal) places() []place {
	if !sig.plan.movable() {
		return []place{sig.plan.place(0)}
	}
	var places []place
	if was := sig.currentPlace(); was.address != "" {
		places = append(places, was)
	}
	for n := range maxAlternatives + 1 {
		places = append(places, sig.plan.place(n))
	}
	return places
}

// obstacleLocked returns why a signal cannot use an address, or nil if it can.
func (s *appProcess) obstacleLocked(sig *signal, at place, table sockets, followed int) error {
	if owner := s.reserved[at.address]; owner != nil && owner != sig {
		return fmt.Errorf("socket @%s belongs to the app's other process, %s", at.address, title(owner.plan))
	}
	if sig != s.current && s.current.currentPlace().address == "" && at.address == s.current.plan.Address {
		return fmt.Errorf("socket @%s is reserved for %s, which has not started", at.address, title(s.current.plan))
	}
	if held, is := table[at.address]; is {
		return &heldError{address: at.address, inode: held.inode}
	}
	if revision, is := s.leaving[at.address]; is && followed < revision {
		return fmt.Errorf("socket @%s was that of a candidate, and the autoscaler has not followed yet", at.address)
	}
	return nil
}

// heldError: a process holds an address.
type heldError struct {
	address string
	inode   uint64
	holder  int // process; 0: unknown
}

func (e *heldError) Error() string {
	return fmt.Sprintf("socket @%s is held by %s", e.address, describe(e.holder))
}

// describe returns the holder of a socket as text.
func describe(pid int) string {
	if pid == 0 {
		return "a process that cannot be inspected"
	}
	return fmt.Sprintf("process %d", pid)
}

func (s *appProcess) reserveLocked(sig *signal, at place) {
	s.releaseLocked(sig)
	s.reserved[at.address] = sig
	delete(s.leaving, at.address)
	sig.setPlace(at)
}

// releaseLocked frees the address of a signal.
func (s *appProcess) releaseLocked(sig *signal) {
	if was := sig.currentPlace(); s.reserved[was.address] == sig {
		delete(s.reserved, was.address)
	}
}

// Reasons why a started signal is not ready.
var (
	errSilent          = errors.New("no process listens")
	errForeignListener = errors.New("another process listens at the signal's socket")
)

// listens returns nil if the running child with this leader listens at the address. It reads only the kernel's tables,
// so a signal that accepts a single connection is not disturbed.
func listens(leader int, address string) error {
	table, err := readSockets()
	if err != nil {
		return err
	}
	at, held := table[address]
	switch {
	case !held || !at.listens:
		return fmt.Errorf("%w at @%s", errSilent, address)
	case !childHas(leader, at.inode):
		return fmt.Errorf("%w: %s at @%s", errForeignListener, describe(anyHolder(at.inode)), address)
	}
	return nil
}

// childHas reports whether a process of the child, usually its leader, has the socket open.
func childHas(leader int, inode uint64) bool {
	if hasSocket(leader, inode) {
		return true
	}
	return processWith(inode, func(pid int) bool { return pid != leader && supervise.BelongsTo(pid, leader) }) != 0
}

// anyHolder returns a process that has the socket open, or 0 if it is unknown.
func anyHolder(inode uint64) int {
	return processWith(inode, func(int) bool { return true })
}

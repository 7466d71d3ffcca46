package bootstrap

import (
	"errors"
	"fmt"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
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
		return place{}, sig.unplaced(err)
	}
	if stranger, held := table[sig.plan.Address]; held && (sibling == nil || sibling == sig) && at.address != sig.plan.Address {
		s.log.Warn("signal's socket is held by somebody else, another is taken",
			"app", s.app, "holder", anyHolder(stranger.inode), "socket", at.address)
	}
	return at, nil
}

// unplaced is the error of a signal that cannot have any place, for what hinders
// it at the documented one.
func (sig *signal) unplaced(hindrance error) error {
	if h, is := errors.AsType[*heldError](hindrance); is {
		h.holder = anyHolder(h.inode)
	}
	if !sig.plan.movable() {
		return fmt.Errorf("%w, and it cannot have another", hindrance)
	}
	return fmt.Errorf("%w, and %d others of its kind are not free either", hindrance, maxRivals)
}

// settleLocked reserves a place, or returns what hinders it at the documented one.
func (s *seat) settleLocked(sig *signal, table sockets, followed int) (place, error) {
	var hindrance error // at the documented place
	for _, at := range sig.places() {
		err := s.hindranceLocked(sig, at, table, followed)
		if err == nil {
			s.reserveLocked(sig, at)
			return at, nil
		}
		if at.address == sig.plan.Address {
			hindrance = err
		}
	}
	return place{}, hindrance
}

// places are where a signal may start, the first choice first.
func (sig *signal) places() []place {
	if !sig.plan.movable() {
		return []place{sig.plan.place(0)}
	}
	var places []place
	if was := sig.at(); was.address != "" {
		places = append(places, was)
	}
	for n := range maxRivals + 1 {
		places = append(places, sig.plan.place(n))
	}
	return places
}

// hindranceLocked is why a signal cannot have a place; nil if it can.
func (s *seat) hindranceLocked(sig *signal, at place, table sockets, followed int) error {
	if owner := s.reserved[at.address]; owner != nil && owner != sig {
		return fmt.Errorf("socket @%s is that of the app's other process, %s", at.address, title(owner.plan))
	}
	if sig != s.current && s.current.at().address == "" && at.address == s.current.plan.Address {
		return fmt.Errorf("socket @%s is for %s, which is not yet started", at.address, title(s.current.plan))
	}
	if held, is := table[at.address]; is {
		return &heldError{address: at.address, inode: held.inode}
	}
	if revision, is := s.leaving[at.address]; is && followed < revision {
		return fmt.Errorf("socket @%s was that of a candidate, and the autoscaler has not followed yet", at.address)
	}
	return nil
}

// heldError: somebody holds an address.
type heldError struct {
	address string
	inode   uint64
	holder  int // process; 0: not known
}

func (e *heldError) Error() string {
	return fmt.Sprintf("socket @%s is held by %s", e.address, describe(e.holder))
}

// describe names the holder of a socket for people.
func describe(pid int) string {
	if pid == 0 {
		return "a process that may not be looked at"
	}
	return fmt.Sprintf("process %d", pid)
}

func (s *seat) reserveLocked(sig *signal, at place) {
	s.releaseLocked(sig)
	s.reserved[at.address] = sig
	delete(s.leaving, at.address)
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

// listens returns nil if the child with this leader, which runs, listens at the
// address. It looks at the kernel's tables only, so a signal that accepts exactly
// once is not disturbed.
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
		return fmt.Errorf("%w: %s at @%s", errStranger, describe(anyHolder(at.inode)), address)
	}
	return nil
}

// childHas reports whether a process of the child has the socket open; its leader,
// as a rule.
func childHas(leader int, inode uint64) bool {
	if hasSocket(leader, inode) {
		return true
	}
	return processWith(inode, func(pid int) bool { return pid != leader && supervise.BelongsTo(pid, leader) }) != 0
}

// anyHolder returns the process that has the socket open, 0 if it cannot be told.
func anyHolder(inode uint64) int {
	return processWith(inode, func(int) bool { return true })
}

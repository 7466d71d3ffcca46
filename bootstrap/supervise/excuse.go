package supervise

import (
	"errors"
	"math"
	"slices"
	"syscall"
	"time"
)

// maxExcused is how many excused ends are remembered: with as many the pause has
// long been the policy's longest.
const maxExcused = 64

// excusedError is an end of which the child is not guilty: there was nothing to
// start, the system could start nothing, or it ended as was expected. It spends
// nothing of the restart budget.
type excusedError struct{ err error }

func (e *excusedError) Error() string { return e.err.Error() }
func (e *excusedError) Unwrap() error { return e.err }

func isExcused(err error) bool {
	_, ok := errors.AsType[*excusedError](err)
	return ok
}

// isScarcity reports whether a start failed for want of what this host has too
// little of at the moment: descriptors, processes, memory.
func isScarcity(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM},
		func(scarce error) bool { return errors.Is(err, scarce) })
}

// count counts an end, and says what follows.
func (p *Process) count(why error, now time.Time) (delay time.Duration, giveUp bool) {
	if isExcused(why) {
		p.excused = append(p.excused, now)
		p.excused = p.excused[max(0, len(p.excused)-maxExcused):]
		endless := p.config.Policy
		endless.Budget = math.MaxInt
		return Next(p.config.Name, p.excused, now, endless)
	}
	p.history = append(p.history, now)
	p.history = p.history[max(0, len(p.history)-p.config.Policy.Budget-1):]
	return Next(p.config.Name, p.history, now, p.config.Policy)
}

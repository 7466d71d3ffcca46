package supervise

import (
	"errors"
	"math"
	"slices"
	"syscall"
	"time"
)

// maxExcused is how many excused ends are stored. With that many, the pause has long reached the policy's maximum.
const maxExcused = 64

// excusedError is an end that the child did not cause: the start could not be prepared, the system lacked resources, or
// the end was expected. It does not count against the restart budget.
type excusedError struct{ err error }

func (e *excusedError) Error() string { return e.err.Error() }
func (e *excusedError) Unwrap() error { return e.err }

func isExcused(err error) bool {
	_, ok := errors.AsType[*excusedError](err)
	return ok
}

// isScarcity reports whether a start failed because the host temporarily lacks descriptors, processes or memory.
func isScarcity(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM},
		func(scarce error) bool { return errors.Is(err, scarce) })
}

// countEnd records an end, and returns the pause before the next start or giveUp.
func (p *Process) countEnd(why error, now time.Time) (delay time.Duration, giveUp bool) {
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

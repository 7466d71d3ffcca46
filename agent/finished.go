package agent

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

const (
	// repeatFor is how long the end of work is repeated. It is less than the time for which a placer keeps ended copies.
	repeatFor   = 5 * time.Minute
	maxFinished = 100
)

// finished has the ends of work with exit code 0, oldest first. A message may be lost, and work that counts as lost is done again. So
// each heartbeat period repeats them.
type finished []finishedWork

type finishedWork struct {
	api.Exited
	until time.Time
}

// add adds the end of a copy, if it is one of work with exit code 0.
func (f *finished) add(now time.Time, c *copyOf, e api.Exited) {
	if !c.OneShot || e.Reason != api.ExitCrashed || e.Status == nil || *e.Status != 0 {
		return
	}
	e.Repeated = true
	*f = append(*f, finishedWork{e, now.Add(repeatFor)})
	*f = (*f)[max(0, len(*f)-maxFinished):]
}

// due returns the ends to repeat.
func (f *finished) due(now time.Time) finished {
	for len(*f) > 0 && !now.Before((*f)[0].until) {
		*f = (*f)[1:]
	}
	return *f
}

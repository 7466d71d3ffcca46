package simulate

import (
	"cmp"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// life is what happened to one machine.
type life struct {
	id, group string
	initial   bool // it is one of the start
	weight    float64
	launched  time.Time
	ran       time.Time // the tick that found it running first; zero: none did
	joined    time.Time // the tick that found its node first; zero: none did
	chosen    time.Time // when its drain began; zero: it did not
	cordoned  time.Time // when its node was told; zero: it was not
	reason    api.DrainReason
	announced bool        // its drain began with a warning
	idle      time.Time   // when its work had ended; zero: it had not
	busy      time.Time   // the latest tick that found work during the drain
	unstored  []time.Time // ticks that could not store the begin of its termination, or that it was accepted, if it ended then
	refusals  []refusal   // of its termination, in order of time
	ended     time.Time   // when its termination was accepted; zero: it was not
	gone      time.Time   // the tick that did not find it; zero: each did
	taken     time.Time   // when the provider ends it by itself, after a warning; zero: it does not
	undone    []undone    // its drains that were taken back
	seen      time.Time
	drains    bool // the latest record lists its drain
}

// undone is a drain that was taken back, as in a life.
type undone struct{ chosen, cordoned, idle, busy time.Time }

// refusal is a call that the provider refused.
type refusal struct {
	at      time.Time
	why     error
	unsaved bool // it was not stored: the time of the tick had ended
	lowered bool // the target of its group was lowered all the same
}

// undo ends a drain that was taken back.
func (l *life) undo() {
	if !l.chosen.IsZero() {
		l.undone = append(l.undone, undone{l.chosen, l.cordoned, l.idle, l.busy})
		l.chosen, l.cordoned, l.idle, l.busy = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	}
}

// leave returns how long the machine was listed after its termination; 0: unknown. The first list without it was read at the end of
// that time, and every is the time between two lists.
func (l *life) leave(every time.Duration) time.Duration {
	end := cmp.Or(l.ended, l.taken)
	if end.IsZero() || l.gone.IsZero() {
		return 0
	}
	return max(1, l.gone.Sub(end)-every/2)
}

// refusal returns the latest refusal until then; nil: there was none.
func (l *life) refusal(until time.Time) *refusal {
	for i := len(l.refusals) - 1; i >= 0; i-- {
		if r := &l.refusals[i]; !r.at.After(until) {
			return r
		}
	}
	return nil
}

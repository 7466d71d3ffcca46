package aws

import (
	"maps"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// settling is how long a read may not show what we wrote; Amazon's are
	// consistent within seconds.
	settling = time.Minute
	// leaving is how long an instance that we ended may be listed as if it lived.
	leaving = 15 * time.Minute
)

// own is what this process wrote to a group, for as long as reads may not show
// it. It is not safe for concurrent use.
type own struct {
	target  *ownTarget
	ended   map[string]time.Time // instances that Amazon ends for us
	unsure  map[string]time.Time // of which we do not know whether it got the request
	lowered map[string]time.Time // still to be ended; the target is lowered by them already
	begun   map[string]begun     // repairs in place, by instance
	halted  map[string]time.Time // instances that were to be stopped as a fence, and when that was asked for
	still   map[string]time.Time // those that a read found not to run
}

type ownTarget struct {
	value  int
	at     time.Time
	moment uint64
}

func newOwn() own {
	return own{
		ended: map[string]time.Time{}, unsure: map[string]time.Time{}, lowered: map[string]time.Time{},
		begun: map[string]begun{}, halted: map[string]time.Time{}, still: map[string]time.Time{},
	}
}

// show puts what we wrote over what was read.
func (o *own) show(s pools.GroupSnapshot) pools.GroupSnapshot {
	if o.target != nil {
		s.Target = o.target.value
	}
	for n := range s.Instances {
		if _, ended := o.ended[s.Instances[n].ID]; ended {
			s.Instances[n].State = pools.InstanceTerminating
		}
	}
	return s
}

// confirm forgets what a read that began at that moment shows by itself, and
// what it should show by now.
func (o *own) confirm(now time.Time, began uint64, target int) {
	if t := o.target; t != nil && (now.Sub(t.at) > settling || began > t.moment && target == t.value) {
		o.target = nil
	}
	forget(o.ended, now, leaving)
	forget(o.lowered, now, leaving)
	forget(o.unsure, now, settling)
	forget(o.halted, now, leaving)
	forget(o.still, now, leaving)
	maps.DeleteFunc(o.begun, func(_ string, b begun) bool { return now.Sub(b.at) > leaving })
}

func forget(times map[string]time.Time, now time.Time, after time.Duration) {
	maps.DeleteFunc(times, func(_ string, at time.Time) bool { return now.Sub(at) > after })
}

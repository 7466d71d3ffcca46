package apps

import (
	"maps"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// perNudge bounds the indices, or instances, that one nudge names, so that it
// fits a message of the bus.
const perNudge = 1000

// Nudge asks for a start or for a stop: exactly one of the two is set.
type Nudge struct {
	Start *message.Start `json:"start,omitempty"`
	Stop  *message.Stop  `json:"stop,omitempty"`
}

// outbox gathers what concerns one app into few nudges.
type outbox struct {
	app      *app
	starts   []int
	restarts []int // of flapping indices
	stops    []*instance
}

// to makes a the app that the next starts and stops are of.
func (o *outbox) to(m *Machine, a *app) {
	if o.app != a {
		o.flush(m)
		o.app = a
	}
}

func (o *outbox) start(s *slot, flapping bool) {
	if flapping {
		o.restarts = append(o.restarts, s.index)
	} else {
		o.starts = append(o.starts, s.index)
	}
}

func (o *outbox) stop(in *instance) { o.stops = append(o.stops, in) }

// flush hands out what was gathered, starts before stops.
func (o *outbox) flush(m *Machine) {
	if o.app != nil {
		o.flushStarts(m, o.starts, false)
		o.flushStarts(m, o.restarts, true)
		o.flushStops(m)
	}
	*o = outbox{}
}

func (o *outbox) flushStarts(m *Machine, indices []int, flapping bool) {
	for len(indices) > 0 {
		n := min(len(indices), perNudge)
		m.nudges = append(m.nudges, Nudge{Start: &message.Start{
			App:         o.app.name,
			LastUpdated: o.app.updated(),
			Version:     o.app.want.Version,
			Indices:     indices[:n:n],
			Running:     maps.Clone(o.app.running),
			Flapping:    flapping,
		}})
		indices = indices[n:]
	}
}

func (o *outbox) flushStops(m *Machine) {
	for stops := o.stops; len(stops) > 0; {
		n := min(len(stops), perNudge)
		instances := make(map[string]string, n)
		for _, in := range stops[:n] {
			instances[in.id] = in.version
		}
		m.nudges = append(m.nudges, Nudge{Stop: &message.Stop{
			App:         o.app.name,
			LastUpdated: o.app.updated(),
			Instances:   instances,
			Running:     maps.Clone(o.app.running),
			Version:     o.app.want.Version,
		}})
		stops = stops[n:]
	}
}

// updated is the row's time in unix seconds, 0 if there is none.
func (a *app) updated() int64 {
	if a.want.Updated.IsZero() {
		return 0
	}
	return a.want.Updated.Unix()
}

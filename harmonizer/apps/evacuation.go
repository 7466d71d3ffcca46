package apps

import "github.com/weirkeeper/weirkeeper/harmonizer/message"

// evacuation is the rule of the same name: a copy that is EVACUATING runs, but
// will end. If there is no other of the live version, one is started at once.
// Once one is RUNNING, those that evacuate are extra; while it is STARTING, they
// are left alone.
func (m *Machine) evacuation(a *app, index int, n census, v *verdict) {
	if n.evacuating == 0 {
		return
	}
	switch {
	case n.serving == 0 && n.leaving > 0:
		v.start, v.why = RuleEvacuation, WhyEvacuating
	case n.listed > 0:
		for c := range m.known.Copies(a.id, index) {
			if c.State() == message.Evacuating {
				v.surplus = append(v.surplus, surplus{c, RuleEvacuation, WhyReplaced})
			}
		}
	case n.running > 0:
		v.again = true // when its node lists it again, nobody tells
	}
	if n.running > 0 {
		v.redundant += n.evacuating
	}
}

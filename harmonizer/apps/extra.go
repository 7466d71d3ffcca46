package apps

import "github.com/weirkeeper/weirkeeper/harmonizer/message"

// undesired is the rules extra_state, extra_index and extra_app: on an index that
// is not desired every copy that runs is extra.
func (m *Machine) undesired(a *app, index int, v *verdict) {
	rule, why := a.undesired()
	for c := range m.known.Copies(a.id, index) {
		if runs(c.State()) {
			v.surplus = append(v.surplus, surplus{c, rule, why})
			v.redundant++
		}
	}
}

func (a *app) undesired() (Rule, Why) {
	switch {
	case a.row == rowDeleted:
		return RuleExtraApp, WhyAppDeleted
	case a.row == rowVanished:
		return RuleExtraApp, WhyAppVanished
	case a.row != rowPresent:
		return RuleExtraApp, WhyAppUnknown
	case a.want.State == message.AppStopped:
		return RuleExtraState, WhyAppStopped
	}
	return RuleExtraIndex, WhyBeyond
}

// extraVersion is the rule extra_version: copies of other versions are extra once
// one of the live version is RUNNING there.
func (m *Machine) extraVersion(a *app, index int, n census, v *verdict) {
	if n.others == 0 || n.running == 0 || a.want.Package != message.PackageStaged {
		return
	}
	v.redundant += n.others
	if n.listed == 0 {
		v.again = true // when its node lists it again, nobody tells
		return
	}
	for c := range m.known.Copies(a.id, index) {
		if runs(c.State()) && c.State() != message.Evacuating && !c.OfVersion(a.want.Version) {
			v.surplus = append(v.surplus, surplus{c, RuleExtraVersion, WhyWrongVersion})
		}
	}
}

// extraApp holds the stops of rule extra_app: the row of an app that was never
// told may be on its way, and one that is gone may come back. Only time in which
// the source is complete counts, all of it: one that is incomplete now and then
// delays a stop by no more than that. If many are gone at once, it is the source
// that may, see rowLoss.
func (m *Machine) extraApp(a *app) (hold, bool) {
	if !a.rowless() {
		return hold{}, false
	}
	if h, held := m.rowLoss.holds(); held {
		return h, true
	}
	if !m.source.isComplete {
		return hold{RuleFreshness, WhyIncomplete, 0}, true
	}
	waited := m.source.trust(m.clock.now) - max(a.untold, m.rowLoss.ended)
	until := m.clock.in(m.cfg.unseen()) - waited
	return hold{RuleExtraApp, WhyGrace, until + 1}, m.clock.now <= until
}

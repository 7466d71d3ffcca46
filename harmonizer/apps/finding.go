package apps

import (
	"fmt"
	"strings"
	"time"
)

// Kind of a Finding. The strings are stable.
type Kind string

// Kinds.
const (
	KindComplete     Kind = "complete"      // both states are complete: nudges may go out
	KindIncomplete   Kind = "incomplete"    // one is not: none may
	KindMissing      Kind = "missing"       // a desired index without a copy that stays
	KindRecovered    Kind = "recovered"     // a missing index has one again
	KindStart        Kind = "start"         // a start was nudged
	KindExtra        Kind = "extra"         // a copy that should not run
	KindStop         Kind = "stop"          // its stop was nudged
	KindNotNudged    Kind = "not_nudged"    // missing or extra, but to wait; Rule and Why tell for what
	KindCrashed      Kind = "crashed"       // a copy crashed, to be restarted at once
	KindFlapping     Kind = "flapping"      // a copy crashed again, to be restarted after a delay
	KindGaveUp       Kind = "gave_up"       // a copy crashed too often to be restarted
	KindCalm         Kind = "calm"          // it ran for long enough: its crashes count no more
	KindRetried      Kind = "retried"       // an operator ended giving up and restart delays
	KindNodeLost     Kind = "node_lost"     // a node is silent
	KindInstanceLost Kind = "instance_lost" // a living node lists a copy no more
	KindIgnored      Kind = "ignored"       // an exit that changes nothing
	KindRefused      Kind = "refused"       // a message that cannot be read
	KindBraked       Kind = "braked"        // too many, or too many rows, were lost at once: nudges are held
	KindEased        Kind = "eased"         // the bus is proven whole: starts go on, at a tenth
	KindReleased     Kind = "released"      // the brake is off
)

// Why is the reason of a Finding. The strings are stable. Those of KindRefused are
// not in this list: "bad_" and a message.Cause.
type Why string

// Reasons.
const (
	WhyNew            Why = "new"             // never seen since it is desired
	WhyNodeLost       Why = "node_lost"       // its node is silent
	WhyNotListed      Why = "not_listed"      // its node lists it no more
	WhyMoved          Why = "moved"           // its id came back as another index, version or app
	WhyCrashed        Why = "crashed"         // it crashed
	WhyStopped        Why = "stopped"         // it was stopped
	WhyShutdown       Why = "shutdown"        // its node shuts down
	WhyEvacuated      Why = "evacuated"       // its node drains
	WhyExited         Why = "exited"          // it ended, for a reason that we do not know
	WhyEvacuating     Why = "evacuating"      // only a copy that will end runs
	WhyReplaced       Why = "replaced"        // it will end, and another one runs
	WhyAppDeleted     Why = "app_deleted"     // the app's row was deleted
	WhyAppVanished    Why = "app_vanished"    // a complete source has the app no more
	WhyAppUnknown     Why = "app_unknown"     // a complete source never had the app
	WhyAppStopped     Why = "app_stopped"     // the app should not run at all
	WhyBeyond         Why = "index_beyond"    // the app has fewer instances
	WhyWrongVersion   Why = "wrong_version"   // the live version runs on that index
	WhyDuplicate      Why = "duplicate"       // another copy of the live version runs there
	WhyRestartDelay   Why = "restart_delay"   // crashed too often to be restarted at once
	WhyGivenUp        Why = "given_up"        // crashed too often to be restarted
	WhyGrace          Why = "grace"           // an app without a row may still get one
	WhyJustChanged    Why = "just_changed"    // the controller has its turn first
	WhyUpdated        Why = "updated"         // the row is older than the app's last change
	WhyNotStaged      Why = "not_staged"      // the package cannot be started
	WhyNudged         Why = "nudged"          // that it was asked for is not long ago
	WhyStopsAll       Why = "stops_all"       // the controller would stop the whole app
	WhyUnconfirmed    Why = "unconfirmed"     // no other copy is sure to run: its node is to list it, and its index not to have crashed lately
	WhyOtherMissing   Why = "other_missing"   // another index of the app is without a copy
	WhyStandsIn       Why = "stands_in"       // it stands in for an index of the app without a copy
	WhyMassLoss       Why = "mass_loss"       // too many were lost at once
	WhyRowsStopped    Why = "rows_stopped"    // too many rows turned STOPPED, or to 0 instances, at once
	WhyConfirmed      Why = "confirmed"       // the source confirmed it
	WhyReturning      Why = "returning"       // lost nodes come back: others may be on their way
	WhyRowsGone       Why = "rows_gone"       // too many rows of the expected state were gone at once
	WhyRowless        Why = "rowless"         // too many copies ran apps without a row when we began to lead
	WhyFollowing      Why = "following"       // another harmonizer leads
	WhyIncomplete     Why = "incomplete"      // one of the two states is not complete
	WhyInTurn         Why = "in_turn"         // it waits for its turn
	WhyNotExpected    Why = "not_expected"    // an exit of what should not run anyway
	WhyStillRuns      Why = "still_runs"      // an exit, and another copy runs
	WhyRepeated       Why = "repeated"        // an exit told before
	WhyOtherPartition Why = "other_partition" // it is not for us
	WhyProven         Why = "proven"          // the bus carries, and nodes are heard
	WhyRecovered      Why = "recovered"       // enough came back
	WhyOrdered        Why = "ordered"         // an operator said so
)

// Rule is what a Finding is the work of: each is one function. The strings are
// stable.
type Rule string

// Rules.
const (
	RuleMissing        Rule = "missing"         // an index without a copy: starts.go
	RuleExitCrashed    Rule = "exit_crashed"    // a crash that is answered at once: crash.go
	RuleExitStopped    Rule = "exit_stopped"    // starts.go
	RuleExitShutdown   Rule = "exit_shutdown"   // starts.go
	RuleFlapping       Rule = "flapping"        // a crash that is answered later: crash.go
	RuleGiveUp         Rule = "give_up"         // a crash that is answered no more: crash.go
	RuleDecay          Rule = "decay"           // crashes that count no more: crash.go
	RuleEvacuation     Rule = "evacuation"      // starts.go
	RuleExtraState     Rule = "extra_state"     // stops.go
	RuleExtraIndex     Rule = "extra_index"     // stops.go
	RuleExtraVersion   Rule = "extra_version"   // stops.go
	RuleExtraApp       Rule = "extra_app"       // stops.go
	RuleDuplicate      Rule = "duplicate"       // stops.go
	RuleWholeApp       Rule = "whole_app"       // stops.go
	RuleLastCopy       Rule = "last_copy"       // lastcopy.go
	RuleResetGrace     Rule = "reset_grace"     // starts.go
	RuleKeepAlive      Rule = "keep_alive"      // starts.go, stops.go
	RuleUpdateRequired Rule = "update_required" // rules.go
	RulePackageState   Rule = "package_state"   // starts.go
	RuleFollow         Rule = "follow"          // fresh.go
	RuleFreshness      Rule = "freshness"       // fresh.go
	RuleBrake          Rule = "brake"           // disruption.go, rowloss.go
	RuleQueue          Rule = "queue"           // dispatch.go
)

// Finding is one thing that a Machine found out or decided.
type Finding struct {
	Kind     Kind      `json:"kind"`
	Why      Why       `json:"why,omitempty"`
	App      string    `json:"app,omitempty"`
	Index    int       `json:"index"` // of App; without one it means nothing
	Version  string    `json:"version,omitempty"`
	Instance string    `json:"instance,omitempty"`
	Node     string    `json:"node,omitempty"`
	Rule     Rule      `json:"rule,omitempty"`
	Until    time.Time `json:"until,omitzero"`   // the rule's deadline: nothing of it changes before
	Detail   string    `json:"detail,omitempty"` // for people

	// Count above 0 makes it a summary of so many findings, in the event stream: it has
	// what all of them have in common. An Index then means nothing.
	Count int `json:"count,omitempty"`
}

// String returns the finding as one line:
// "not_nudged web/3 version=v1 rule=flapping until=2026-01-02T15:04:05Z (restart_delay)",
// "missing web count=40 version=v1 rule=missing (node_lost)".
func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(string(f.Kind))
	switch {
	case f.App != "" && f.Count > 0:
		fmt.Fprintf(&b, " %s", f.App)
	case f.App != "":
		fmt.Fprintf(&b, " %s/%d", f.App, f.Index)
	}
	if f.Count > 0 {
		fmt.Fprintf(&b, " count=%d", f.Count)
	}
	for _, p := range [...]struct{ name, value string }{
		{"version", f.Version}, {"instance", f.Instance}, {"node", f.Node}, {"rule", string(f.Rule)},
	} {
		if p.value != "" {
			fmt.Fprintf(&b, " %s=%s", p.name, p.value)
		}
	}
	if !f.Until.IsZero() {
		fmt.Fprintf(&b, " until=%s", f.Until.UTC().Format(time.RFC3339))
	}
	if f.Why != "" {
		fmt.Fprintf(&b, " (%s)", f.Why)
	}
	if f.Detail != "" {
		fmt.Fprintf(&b, ": %s", f.Detail)
	}
	return b.String()
}

// journal collects the findings of a Step.
type journal struct {
	clock *clock
	found []Finding
}

func (j *journal) find(f Finding) { j.found = append(j.found, f) }

// note adds a finding of an index, which keeps it as its latest.
func (j *journal) note(s *slot, f Finding) {
	f.App, f.Index = s.app.name(), s.index
	s.note, s.noteAt = &f, j.clock.now
	j.find(f)
}

package apps

import (
	"fmt"
	"strings"
	"time"
)

// Kind is the kind of a Finding. The strings are stable.
type Kind string

const (
	KindComplete   Kind = "complete"   // both states are complete; nudges may leave
	KindIncomplete Kind = "incomplete" // a state is incomplete; no nudge may leave

	KindMissing   Kind = "missing"   // a desired index without a lasting copy
	KindRecovered Kind = "recovered" // a missing index has a copy again
	KindStart     Kind = "start"     // a start was sent

	KindExtra Kind = "extra" // a copy that should not run
	KindStop  Kind = "stop"  // its stop was sent

	KindNotNudged Kind = "not_nudged" // missing or extra, but held; Rule and Why give the cause

	KindCrashed  Kind = "crashed"  // a copy crashed and is restarted at once
	KindFlapping Kind = "flapping" // a copy crashed again and is restarted after a delay
	KindGaveUp   Kind = "gave_up"  // a copy crashed too often and is not restarted

	KindDecayed Kind = "calm"    // it ran for long enough: its crashes no longer count
	KindRetried Kind = "retried" // an operator ended giving up and restart delays

	KindNodeLost     Kind = "node_lost"     // a node is silent
	KindInstanceLost Kind = "instance_lost" // a living node omits a copy

	KindIgnored Kind = "ignored" // an exit that changes nothing
	KindRefused Kind = "refused" // a malformed message, or one about another node than that of its subject

	KindLimitHeld      Kind = "limit_held"      // the disruption limit holds nudges: too many instances or rows were lost at once
	KindLimitThrottled Kind = "limit_throttled" // the bus works again; starts leave at a tenth of the rate
	KindReleased       Kind = "released"        // the disruption limit is off
)

// Why is the reason of a Finding. The strings are stable. The reasons of KindRefused are not
// listed here: "bad_" and a message.Cause.
type Why string

const (
	WhyNew       Why = "new"        // not seen since it is desired
	WhyNodeLost  Why = "node_lost"  // its node is silent
	WhyNotListed Why = "not_listed" // its node omits it
	WhyMoved     Why = "moved"      // its id came back as another index, version or app

	WhyCrashed  Why = "crashed"  // it crashed
	WhyStopped  Why = "stopped"  // it was stopped
	WhyShutdown Why = "shutdown" // its node shuts down

	WhyEvacuated Why = "evacuated" // its node drains
	WhyExited    Why = "exited"    // it ended for an unknown reason

	WhyEvacuating Why = "evacuating" // only a copy that will end runs
	WhyReplaced   Why = "replaced"   // it will end, and another copy runs

	WhyAppDeleted  Why = "app_deleted"  // the app's row was deleted
	WhyAppVanished Why = "app_vanished" // a complete source no longer has the app
	WhyAppUnknown  Why = "app_unknown"  // a complete source never had the app

	WhyAppStopped Why = "app_stopped"  // the app should not run at all
	WhyBeyond     Why = "index_beyond" // the app has fewer instances

	WhyWrongVersion Why = "wrong_version" // the live version runs on that index
	WhyDuplicate    Why = "duplicate"     // another copy of the live version runs there

	WhyRestartDelay Why = "restart_delay" // crashed too often to be restarted at once
	WhyGivenUp      Why = "given_up"      // crashed too often to be restarted

	WhyGrace       Why = "grace"        // an app without a row may still get one
	WhyJustChanged Why = "just_changed" // the controller acts first

	WhyUpdated   Why = "updated"    // the row is older than the app's last change
	WhyNotStaged Why = "not_staged" // the package cannot be started
	WhyNudged    Why = "nudged"     // a recent nudge already requests it

	WhyStopsAll    Why = "stops_all"   // the controller would stop the whole app
	WhyUnconfirmed Why = "unconfirmed" // no other copy is confirmed: listed by its node, and without a recent crash of its index

	WhyOtherMissing    Why = "other_missing"    // another index of the app is without a copy
	WhyReplacesMissing Why = "replaces_missing" // it replaces an index of the app without a copy

	WhyMassLoss    Why = "mass_loss"    // too many were lost at once
	WhyRowsStopped Why = "rows_stopped" // too many rows turned STOPPED, or to 0 instances, at once

	WhyConfirmed Why = "confirmed" // the source confirmed it
	WhyReturning Why = "returning" // lost nodes come back: others may be on their way

	WhyRowsGone   Why = "rows_gone"   // too many rows of the expected state were gone at once
	WhyWithoutRow Why = "without_row" // too many copies ran apps without a row when this machine began to lead

	WhyFollowing  Why = "following"  // another harmonizer leads
	WhyIncomplete Why = "incomplete" // a state is incomplete

	WhyInTurn      Why = "in_turn"      // it is queued
	WhyNotExpected Why = "not_expected" // an exit of a copy that should not run

	WhyStillRuns Why = "still_runs" // an exit, but another copy runs
	WhyRepeated  Why = "repeated"   // the exit was already reported

	WhyOtherPartition Why = "other_partition" // of another partition
	WhyProven         Why = "proven"          // the bus delivers, and nodes send heartbeats

	WhyRecovered Why = "recovered" // enough came back
	WhyOrdered   Why = "ordered"   // ordered by an operator
)

// Rule is the rule that made a Finding. Each rule is one function. The strings are stable.
type Rule string

const (
	RuleMissing      Rule = "missing"       // an index without a copy: starts.go
	RuleExitCrashed  Rule = "exit_crashed"  // a crash that is answered at once: crash.go
	RuleExitStopped  Rule = "exit_stopped"  // an instance that should run was stopped: starts.go
	RuleExitShutdown Rule = "exit_shutdown" // the node of an instance shuts down: starts.go

	RuleFlapping Rule = "flapping" // a crash that is answered after a delay: crash.go
	RuleGiveUp   Rule = "give_up"  // a crash that is not answered: crash.go
	RuleDecay    Rule = "decay"    // crashes that no longer count: crash.go

	RuleEvacuation Rule = "evacuation" // the node of an instance drains: starts.go

	RuleExtraState   Rule = "extra_state"   // a copy of an app that should not run: stops.go
	RuleExtraIndex   Rule = "extra_index"   // a copy beyond the desired indices: stops.go
	RuleExtraVersion Rule = "extra_version" // a copy of an old version: stops.go
	RuleExtraApp     Rule = "extra_app"     // a copy of an app without a row: stops.go

	RuleDuplicate Rule = "duplicate" // a second copy of one instance: stops.go
	RuleWholeApp  Rule = "whole_app" // the stop would stop the whole app at the controller: stops.go
	RuleLastCopy  Rule = "last_copy" // the stop would end the last serving copy: lastcopy.go

	RuleResetGrace     Rule = "reset_grace"     // the controller acts first on an index that it changed: starts.go
	RuleKeepAlive      Rule = "keep_alive"      // a recent nudge already requests it: starts.go, stops.go
	RuleUpdateRequired Rule = "update_required" // the row is older than the last change of the app: rules.go
	RulePackageState   Rule = "package_state"   // the package cannot be started: starts.go

	RuleFollow          Rule = "follow"           // another harmonizer leads: fresh.go
	RuleFreshness       Rule = "freshness"        // a state is incomplete: fresh.go
	RuleDisruptionLimit Rule = "disruption_limit" // too much was lost at once: disruption.go, rowloss.go
	RuleQueue           Rule = "queue"            // it waits in the queue: dispatch.go
)

// Finding is one thing that a Machine found or decided.
type Finding struct {
	Kind     Kind      `json:"kind"`
	Why      Why       `json:"why,omitempty"`
	App      string    `json:"app,omitempty"`
	Index    int       `json:"index"` // of App; without App it has no meaning
	Version  string    `json:"version,omitempty"`
	Instance string    `json:"instance,omitempty"`
	Node     string    `json:"node,omitempty"`
	Rule     Rule      `json:"rule,omitempty"`
	Until    time.Time `json:"until,omitzero"`   // deadline of the rule: it cannot change earlier
	Detail   string    `json:"detail,omitempty"` // for people

	// Count above 0: this is a summary of that many findings in the event stream. It has the
	// fields that all of them have in common. Its Index has no meaning.
	Count int `json:"count,omitempty"`
}

// String returns the finding as one line:
//
//	"not_nudged web/3 version=v1 rule=flapping until=2026-01-02T15:04:05Z (restart_delay)"
//	"missing web count=40 version=v1 rule=missing (node_lost)"
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

// note adds a finding of an index, and saves it as the latest of the index.
func (j *journal) note(s *slot, f Finding) {
	f.App, f.Index = s.app.name(), s.index
	s.note, s.noteAt = &f, j.clock.now
	j.find(f)
}

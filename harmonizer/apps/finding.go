package apps

import (
	"fmt"
	"strings"
)

// Kind of a Finding. The strings are stable.
type Kind string

const (
	KindComplete     Kind = "complete"      // both states are complete: nudges may go out
	KindIncomplete   Kind = "incomplete"    // one is not: none may
	KindMissing      Kind = "missing"       // a desired index without a copy
	KindRecovered    Kind = "recovered"     // a missing index has one again
	KindStart        Kind = "start"         // a start was nudged
	KindExtra        Kind = "extra"         // a copy that should not run
	KindStop         Kind = "stop"          // its stop was nudged
	KindNotNudged    Kind = "not_nudged"    // missing or extra, but to wait; Why tells for what
	KindCrashed      Kind = "crashed"       // a copy crashed, to be restarted at once
	KindFlapping     Kind = "flapping"      // a copy crashed again, to be restarted after a delay
	KindNodeLost     Kind = "node_lost"     // a node is silent
	KindInstanceLost Kind = "instance_lost" // a living node lists a copy no more
	KindIgnored      Kind = "ignored"       // an exit that changes nothing
)

// Why is the reason of a Finding. The strings are stable.
type Why string

const (
	WhyNew          Why = "new"           // never seen since it is desired
	WhyNodeLost     Why = "node_lost"     // its node is silent
	WhyNotListed    Why = "not_listed"    // its node lists it no more
	WhyMoved        Why = "moved"         // its id came back as another index, version or app
	WhyCrashed      Why = "crashed"       // it crashed
	WhyStopped      Why = "stopped"       // it was stopped
	WhyShutdown     Why = "shutdown"      // its node shuts down
	WhyEvacuated    Why = "evacuated"     // its node drains
	WhyExited       Why = "exited"        // it ended, for a reason that we do not know
	WhyAppDeleted   Why = "app_deleted"   // the app's row was deleted
	WhyAppVanished  Why = "app_vanished"  // a complete source has the app no more
	WhyAppUnknown   Why = "app_unknown"   // a complete source never had the app
	WhyBeyond       Why = "index_beyond"  // the app has fewer instances
	WhyWrongVersion Why = "wrong_version" // the live version runs on that index
	WhyRestartDelay Why = "restart_delay" // crashed too often to be restarted at once
	WhyGrace        Why = "grace"         // an app without a row may still get one
	WhyNotExpected  Why = "not_expected"  // an exit of what should not run anyway
	WhyStillRuns    Why = "still_runs"    // an exit, and another copy runs
	WhyRepeated     Why = "repeated"      // an exit told before
)

// Finding is one thing that a Machine found out or decided.
type Finding struct {
	Kind     Kind   `json:"kind"`
	Why      Why    `json:"why,omitempty"`
	App      string `json:"app,omitempty"`
	Index    int    `json:"index"` // of App; without one it means nothing
	Version  string `json:"version,omitempty"`
	Instance string `json:"instance,omitempty"`
	Node     string `json:"node,omitempty"`
	Detail   string `json:"detail,omitempty"` // of KindIncomplete: for people
}

// String returns the finding as one line: "missing web/3 version=v1 (node_lost)".
func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(string(f.Kind))
	if f.App != "" {
		fmt.Fprintf(&b, " %s/%d", f.App, f.Index)
	}
	for _, p := range [...]struct{ name, value string }{
		{"version", f.Version}, {"instance", f.Instance}, {"node", f.Node},
	} {
		if p.value != "" {
			fmt.Fprintf(&b, " %s=%s", p.name, p.value)
		}
	}
	if f.Why != "" {
		fmt.Fprintf(&b, " (%s)", f.Why)
	}
	if f.Detail != "" {
		fmt.Fprintf(&b, ": %s", f.Detail)
	}
	return b.String()
}

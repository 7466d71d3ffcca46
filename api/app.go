package api

import (
	"fmt"
	"strings"
	"time"
)

// AppCrash is a line of an app's crash table.
type AppCrash struct {
	Instance    string     `json:"instance"`
	Index       int        `json:"index"`
	Version     string     `json:"version"`
	Pool        string     `json:"pool,omitempty"` // of the node; empty for a legacy DEA
	Node        string     `json:"node,omitempty"`
	At          time.Time  `json:"at"`    // time of receipt
	Since       float64    `json:"since"` // unix seconds, as reported by the node; 0: not reported
	Reason      ExitReason `json:"reason"`
	Status      *int       `json:"exit_status,omitempty"` // nil: unknown
	Description string     `json:"exit_description,omitempty"`
}

// AppExplanation is the state of one app, with at most 1000 indices and 2000 instances. If there
// are more, it has the indices in trouble first, then the lowest.
type AppExplanation struct {
	AppSummary
	Indices []IndexStatus `json:"indices"` // in order: the desired ones, and those with a copy
	Omitted int           `json:"omitted,omitempty"`
}

// AppFinding is one thing that a Machine found or decided.
type AppFinding struct {
	Kind     AppFindingKind `json:"kind"`
	Why      AppReason      `json:"why,omitempty"`
	App      string         `json:"app,omitempty"`
	Index    int            `json:"index"` // of App; without App it has no meaning
	Version  string         `json:"version,omitempty"`
	Instance string         `json:"instance,omitempty"`
	Pool     string         `json:"pool,omitempty"` // of the node; empty for a legacy DEA
	Node     string         `json:"node,omitempty"`
	Rule     AppRule        `json:"rule,omitempty"`
	Until    time.Time      `json:"until,omitzero"`   // deadline of the rule: it cannot change earlier
	Detail   string         `json:"detail,omitempty"` // for people

	// Count above 0: this is a summary of that many findings in the event stream. It has the
	// fields that all of them have in common. Its Index has no meaning.
	Count int `json:"count,omitempty"`
}

// String returns the finding as one line:
//
//	"not_nudged web/3 version=v1 rule=flapping until=2026-01-02T15:04:05Z (restart_delay)"
//	"missing web count=40 version=v1 rule=missing (node_lost)"
func (f AppFinding) String() string {
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
		{"version", f.Version}, {"instance", f.Instance}, {"node", NodeName(f.Pool, f.Node)}, {"rule", string(f.Rule)},
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

// IndexStatus is one index of an app.
type IndexStatus struct {
	Index     int           `json:"index"`
	Desired   bool          `json:"desired"`
	Instances []AppInstance `json:"instances,omitempty"` // at most 100 in order of id; copies that should not run are chosen first
	Omitted   int           `json:"omitted,omitempty"`   // number of further instances
	Missing   time.Time     `json:"missing_since,omitzero"`
	NotBefore time.Time     `json:"not_before,omitzero"` // if missing: no start is sent earlier
	Crashes   int           `json:"crashes,omitempty"`   // in a row
	CrashedAt time.Time     `json:"crashed_at,omitzero"` // the last crash
	GivenUp   bool          `json:"given_up,omitempty"`
	Done      bool          `json:"done,omitempty"`     // work that ended with exit code 0
	Flapping  bool          `json:"flapping,omitempty"` // it counts as flapping

	// If a start is due but not sent: the rule that holds it, the reason, and its deadline.
	// Empty if no start is due.
	Rule  AppRule   `json:"rule,omitempty"`
	Why   AppReason `json:"why,omitempty"`
	Until time.Time `json:"until,omitzero"`

	Last   *AppFinding `json:"last,omitempty"` // the newest finding
	LastAt time.Time   `json:"last_at,omitzero"`
}

// AppInstance is one copy of an app.
type AppInstance struct {
	ID      string    `json:"instance"`
	Pool    string    `json:"pool,omitempty"` // of the node; empty for a legacy DEA
	Node    string    `json:"node"`
	Version string    `json:"version"`
	State   CopyState `json:"state"`
	Unready bool      `json:"unready,omitempty"` // RUNNING, and not ready to replace another one
	Since   float64   `json:"since"`             // unix seconds, as reported by the node
	Absent  time.Time `json:"absent,omitzero"`   // since then its node omits it
	// Silent is the time of the node's latest heartbeat, if the node is silent. Whether the
	// copy runs is then unknown.
	Silent  time.Time `json:"silent_since,omitzero"`
	Extra   AppRule   `json:"extra,omitempty"`   // the rule that found that it should not run
	Stopped bool      `json:"stopped,omitempty"` // its stop was sent

	// Why its stop is not sent now, as in IndexStatus.
	Rule  AppRule   `json:"rule,omitempty"`
	Why   AppReason `json:"why,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

// AppFindingKind is the kind of a Finding. The strings are stable.
type AppFindingKind string

const (
	AppFindingComplete   AppFindingKind = "complete"   // both states are complete; nudges may leave
	AppFindingIncomplete AppFindingKind = "incomplete" // a state is incomplete; no nudge may leave

	AppFindingMissing   AppFindingKind = "missing"   // a desired index without a lasting copy
	AppFindingRecovered AppFindingKind = "recovered" // a missing index has a copy again
	AppFindingStart     AppFindingKind = "start"     // a start was sent

	AppFindingExtra AppFindingKind = "extra" // a copy that should not run
	AppFindingStop  AppFindingKind = "stop"  // its stop was sent

	AppFindingNotNudged AppFindingKind = "not_nudged" // missing or extra, but held; Rule and Why give the cause

	AppFindingCrashed  AppFindingKind = "crashed"  // a copy crashed and is restarted at once
	AppFindingFlapping AppFindingKind = "flapping" // a copy crashed again and is restarted after a delay
	AppFindingGaveUp   AppFindingKind = "gave_up"  // a copy crashed too often and is not restarted

	AppFindingDone   AppFindingKind = "done"   // work that ends exited with 0, and is not started again
	AppFindingFailed AppFindingKind = "failed" // work that ends failed too often, and is not started again

	AppFindingDecayed AppFindingKind = "calm"    // it ran for long enough: its crashes no longer count
	AppFindingRetried AppFindingKind = "retried" // an operator ended giving up and restart delays

	AppFindingUpdated AppFindingKind = "updated"       // each index has a ready instance of the new version
	AppFindingHalted  AppFindingKind = "update_halted" // the new version crashed or was not ready in time; the last complete one serves

	AppFindingNotReady AppFindingKind = "not_ready" // an index runs, and none of its instances became ready in time
	AppFindingReady    AppFindingKind = "ready"     // an index that was not ready has a ready instance

	AppFindingNodeLost     AppFindingKind = "node_lost"     // a node is silent
	AppFindingInstanceLost AppFindingKind = "instance_lost" // a living node omits a copy

	AppFindingIgnored AppFindingKind = "ignored" // an exit that changes nothing
	AppFindingRefused AppFindingKind = "refused" // a malformed message, or one about another node than that of its subject

	AppFindingSenderWrong AppFindingKind = "sender_wrong" // a node, or a writer of metrics, sends statements that do not count, or too much; reported once
	AppFindingSenderRight AppFindingKind = "sender_right" // it did so for the last time a minute ago

	AppFindingConfiguration AppFindingKind = "configuration" // the harmonizer's file changed: what came, left and changed, and what needs a restart

	AppFindingLimitHeld      AppFindingKind = "limit_held"      // the disruption limit holds nudges: too many instances or rows were lost at once
	AppFindingLimitThrottled AppFindingKind = "limit_throttled" // the bus works again; starts leave at a tenth of the rate
	AppFindingReleased       AppFindingKind = "released"        // the disruption limit is off
)

// LimitState is the state of the disruption limit, which holds nudges after too many indices
// were lost at once.
//
//	off ──► held ──► throttled ──► off
type LimitState string

const (
	LimitOff       LimitState = ""
	LimitHeld      LimitState = "held"      // no nudge is sent
	LimitThrottled LimitState = "throttled" // the bus works again; starts leave at a tenth of the rate, but not while nodes return; stops are held
)

// LimitStatus is the state of the disruption limits, for people.
type LimitStatus struct {
	State   LimitState `json:"state,omitempty"`
	Since   time.Time  `json:"since,omitzero"`
	Nodes   int        `json:"nodes,omitempty"`   // lost nodes
	Indices int        `json:"indices,omitempty"` // lost indices
	Share   float64    `json:"share,omitempty"`   // of the indices that ran before

	Missing   int `json:"missing,omitempty"` // lost indices that are still missing
	ReleaseAt int `json:"release_at"`        // the limit ends at this many missing or fewer, when no more lost nodes return

	// The stops of apps without a row may be held independently of LimitStatus.State. Either too many rows
	// were gone at once, or too many copies ran apps without a row when this machine began to
	// lead. 0: not held.
	RowsGone int `json:"rows_gone,omitempty"`
	RowsOf   int `json:"rows_of,omitempty"` // rows before
	// RowsNeedRelease: only an operator, or returning rows, end the hold of RowsGone.
	RowsNeedRelease bool      `json:"rows_need_release,omitempty"`
	WithoutRow      int       `json:"without_row,omitempty"`
	WithoutRowOf    int       `json:"without_row_of,omitempty"` // copies in total
	RowsSince       time.Time `json:"rows_since,omitzero"`      // of the earlier of the two

	// Stops are held because too many rows turned STOPPED or to 0 instances at once. 0: not
	// held.
	RowsStopped      int       `json:"rows_stopped,omitempty"`
	RowsStoppedOf    int       `json:"rows_stopped_of,omitempty"` // apps that were started before
	RowsStoppedSince time.Time `json:"rows_stopped_since,omitzero"`
	NeedsRelease     bool      `json:"needs_release,omitempty"` // only an operator can end it
}

// Holds reports whether the limit waits for proof that the bus works.
func (b LimitStatus) Holds() bool { return b.State == LimitHeld }

// On reports whether anything is held or slowed.
func (b LimitStatus) On() bool {
	return b.State != LimitOff || b.RowsGone+b.WithoutRow+b.RowsStopped > 0
}

// AppRule is the rule that made a Finding. Each rule is one function. The strings are stable.
type AppRule string

const (
	AppRuleMissing      AppRule = "missing"       // an index without a copy: starts.go
	AppRuleExitCrashed  AppRule = "exit_crashed"  // a crash that is answered at once: crash.go
	AppRuleExitStopped  AppRule = "exit_stopped"  // an instance that should run was stopped: starts.go
	AppRuleExitShutdown AppRule = "exit_shutdown" // the node of an instance shuts down: starts.go

	AppRuleFlapping AppRule = "flapping" // a crash that is answered after a delay: crash.go
	AppRuleGiveUp   AppRule = "give_up"  // a crash that is not answered: crash.go
	AppRuleDecay    AppRule = "decay"    // crashes that no longer count: crash.go
	AppRuleOneShot  AppRule = "one_shot" // work that ends: oneshot.go

	AppRuleEvacuation AppRule = "evacuation" // the node of an instance drains: starts.go

	AppRuleExtraState   AppRule = "extra_state"   // a copy of an app that should not run: stops.go
	AppRuleExtraIndex   AppRule = "extra_index"   // a copy beyond the desired indices: stops.go
	AppRuleExtraVersion AppRule = "extra_version" // a copy of an old version: stops.go
	AppRuleExtraApp     AppRule = "extra_app"     // a copy of an app without a row: stops.go

	AppRuleDuplicate AppRule = "duplicate" // a second copy of one instance: stops.go
	AppRuleWholeApp  AppRule = "whole_app" // the stop would stop the whole app at the controller: stops.go
	AppRuleLastCopy  AppRule = "last_copy" // the stop would end the last serving copy: lastcopy.go

	AppRuleResetGrace     AppRule = "reset_grace"     // the controller acts first on an index that it changed: starts.go
	AppRuleKeepAlive      AppRule = "keep_alive"      // a recent nudge already requests it: starts.go, stops.go
	AppRuleUpdate         AppRule = "update"          // one version replaces another, index after index: update.go
	AppRuleUpdateRequired AppRule = "update_required" // the row is older than the last change of the app: rules.go
	AppRulePackageState   AppRule = "package_state"   // the package cannot be started: starts.go

	AppRuleFollow          AppRule = "follow"           // another harmonizer leads: gate.go
	AppRuleFreshness       AppRule = "freshness"        // a state is incomplete: gate.go
	AppRuleDisruptionLimit AppRule = "disruption_limit" // too much was lost at once: disruption.go, rowloss.go
	AppRuleQueue           AppRule = "queue"            // it waits in the queue: dispatch.go
)

// AppSummary is the short state of one app.
type AppSummary struct {
	Name     string            `json:"name"`
	Pool     string            `json:"pool,omitempty"`
	Expected bool              `json:"expected"`          // it has a row
	Problem  string            `json:"problem,omitempty"` // why it is neither started nor stopped
	Version  string            `json:"version,omitempty"` // the live version
	OneShot  bool              `json:"one_shot,omitempty"`
	State    AppState          `json:"state,omitempty"`
	Package  PackageState      `json:"package_state,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Updated  time.Time         `json:"updated,omitzero"`
	Count    AppCount          `json:"count"`
	Update   *AppUpdate        `json:"update,omitempty"` // nil: no version replaces another one
}

// PoolTotals are sums over apps, with the names of the health manager's varz, and the halted updates.
type PoolTotals struct {
	Apps             int     `json:"apps"`              // with a row
	StartedApps      int     `json:"started_apps"`      // apps that should run
	Instances        int     `json:"instances"`         // of apps with a row
	StartedInstances int     `json:"started_instances"` // instances that should run: the sum of the next four
	Running          int     `json:"running_instances"`
	Missing          int     `json:"missing_instances"`
	Crashed          int     `json:"crashed_instances"`
	Flapping         int     `json:"flapping_instances"`
	Done             int     `json:"done_instances,omitempty"`   // besides StartedInstances: work that ended with exit code 0
	Failed           int     `json:"failed_instances,omitempty"` // besides StartedInstances: work that is not started again
	Extra            int     `json:"extra_instances"`            // copies that should not run
	Rowless          int     `json:"rowless_instances"`          // part of Extra: the app has no row and was not deleted
	Crashes          int     `json:"crashes"`                    // lines of the crash tables
	Halted           int     `json:"halted_updates"`             // apps whose update was halted
	Memory           float64 `json:"memory"`                     // MB, of Instances
	StartedMemory    float64 `json:"started_memory"`             // MB, of StartedInstances
}

// AppReason is the reason of a Finding. The strings are stable. The reasons of KindRefused are not
// listed here: "bad_" and a message.Cause.
type AppReason string

const (
	WhyNew       AppReason = "new"        // not seen since it is desired
	WhyNodeLost  AppReason = "node_lost"  // its node is silent
	WhyNotListed AppReason = "not_listed" // its node omits it
	WhyMoved     AppReason = "moved"      // its id came back as another index, version or app

	WhyCrashed  AppReason = "crashed"  // it crashed
	WhyStopped  AppReason = "stopped"  // it was stopped
	WhyShutdown AppReason = "shutdown" // its node shuts down

	WhyEvacuated    AppReason = "evacuated"      // its node drains
	WhyUnplaced     AppReason = "unplaced"       // its placer has not confirmed yet that it put the copy on its node
	WhyNotPlaced    AppReason = "not_placed"     // a node lists copies that were not placed there; they count nowhere
	WhyExitOfOther  AppReason = "exit_of_other"  // a node reports the end of a copy that was not there
	WhySendsTooMuch AppReason = "sends_too_much" // a node sends more messages than its share, or too large ones; it loses its own
	WhyExited       AppReason = "exited"         // it ended for an unknown reason
	WhyDone         AppReason = "done"           // it is work that ends, and exited with 0

	WhyEvacuating AppReason = "evacuating" // only a copy that will end runs
	WhyReplaced   AppReason = "replaced"   // it will end, and another copy runs

	WhyAppDeleted  AppReason = "app_deleted"  // the app's row was deleted
	WhyAppVanished AppReason = "app_vanished" // a complete source no longer has the app
	WhyAppUnknown  AppReason = "app_unknown"  // a complete source never had the app

	WhyAppStopped AppReason = "app_stopped"  // the app should not run at all
	WhyBeyond     AppReason = "index_beyond" // the app has fewer instances

	WhyWrongVersion AppReason = "wrong_version" // the live version runs on that index
	WhyDuplicate    AppReason = "duplicate"     // another copy of the live version runs there

	WhyRestartDelay AppReason = "restart_delay" // crashed too often to be restarted at once
	WhyGivenUp      AppReason = "given_up"      // crashed too often to be restarted

	WhyGrace       AppReason = "grace"        // an app without a row may still get one
	WhyJustChanged AppReason = "just_changed" // the controller acts first

	WhyUpdated   AppReason = "updated"    // the row is older than the app's last change
	WhyNotStaged AppReason = "not_staged" // the package cannot be started
	WhyNudged    AppReason = "nudged"     // a recent nudge already requests it
	WhyNoRoom    AppReason = "no_room"    // its scheduler has the request, and no node takes it

	WhyStopsAll    AppReason = "stops_all"   // the controller would stop the whole app
	WhyUnconfirmed AppReason = "unconfirmed" // no other copy is confirmed: listed by its node, and without a recent crash of its index

	WhyOtherMissing    AppReason = "other_missing"    // another index of the app is without a copy
	WhyReplacesMissing AppReason = "replaces_missing" // it replaces an index of the app without a copy

	WhyMassLoss    AppReason = "mass_loss"    // too many were lost at once
	WhyRowsStopped AppReason = "rows_stopped" // too many rows turned STOPPED, or to 0 instances, at once

	WhyConfirmed AppReason = "confirmed" // the source confirmed it
	WhyReturning AppReason = "returning" // lost nodes come back: others may be on their way

	WhyRowsGone   AppReason = "rows_gone"   // too many rows of the expected state were gone at once
	WhyWithoutRow AppReason = "without_row" // too many copies ran apps without a row when this machine began to lead

	WhyFollowing  AppReason = "following"  // another harmonizer leads
	WhyIncomplete AppReason = "incomplete" // a state is incomplete

	WhyInTurn      AppReason = "in_turn"      // it is queued
	WhyHalted      AppReason = "halted"       // the update to another version is halted
	WhyNotExpected AppReason = "not_expected" // an exit of a copy that should not run

	WhyStillRuns AppReason = "still_runs" // an exit, but another copy runs
	WhyRepeated  AppReason = "repeated"   // the exit was already reported

	WhyOtherPartition AppReason = "other_partition" // of another partition
	WhyProven         AppReason = "proven"          // the bus delivers, and nodes send heartbeats

	WhyRecovered AppReason = "recovered" // enough came back
	WhyOrdered   AppReason = "ordered"   // ordered by an operator
)

// AppCount is one app's line in Counts.
type AppCount struct {
	Expected int     `json:"expected"`
	Running  int     `json:"running"`
	Missing  int     `json:"missing"`
	Flapping int     `json:"flapping"`
	Crashed  int     `json:"crashed"`
	Extra    int     `json:"extra"`
	Done     int     `json:"done,omitempty"`   // besides Expected: work that ended with exit code 0
	Failed   int     `json:"failed,omitempty"` // besides Expected: work that is not started again
	Never    int     `json:"never,omitempty"`  // part of Expected that no machine of the pool can hold; 0 if unknown
	CPUs     float64 `json:"cpus_expected"`    // of Expected copies without Never
	Mem      float64 `json:"mem_expected"`
	Disk     float64 `json:"disk_expected"`
}

// Add returns the sum, field by field.
func (a AppCount) Add(b AppCount) AppCount {
	return AppCount{
		Expected: a.Expected + b.Expected,
		Running:  a.Running + b.Running,
		Missing:  a.Missing + b.Missing,
		Flapping: a.Flapping + b.Flapping,
		Crashed:  a.Crashed + b.Crashed,
		Extra:    a.Extra + b.Extra,
		Done:     a.Done + b.Done,
		Failed:   a.Failed + b.Failed,
		Never:    a.Never + b.Never,
		CPUs:     a.CPUs + b.CPUs,
		Mem:      a.Mem + b.Mem,
		Disk:     a.Disk + b.Disk,
	}
}

// AppState is whether an app should run.
type AppState string

// States of an app; an empty one means AppStarted.
const (
	AppStarted AppState = "STARTED"
	AppStopped AppState = "STOPPED"
)

// InstanceCounts has the counts of one pool's app instances. It is published on CountsSubject after
// each change and at least once in each heartbeat period. It also answers requests on
// CountsRequestSubject.
type InstanceCounts struct {
	Pool string `json:"pool"`
	// Complete: both states are complete and fresh. Otherwise do not act on the counts.
	Complete bool      `json:"complete"`
	Why      string    `json:"why,omitempty"` // why it is not complete
	At       time.Time `json:"at"`
	// Part is the number of this message, from 0, among Parts. The Counts of many apps need
	// several messages with the same At. Parts 0 means 1.
	Part  int `json:"part,omitempty"`
	Parts int `json:"parts,omitempty"`

	Apps map[string]AppCount `json:"apps"`
}

// PackageState is whether an app can be started.
type PackageState string

// States of a package; an empty one means PackageStaged.
const (
	PackageStaged  PackageState = "STAGED"
	PackagePending PackageState = "PENDING"
	PackageFailed  PackageState = "FAILED"
)

// Wrong returns what a WrongSender of this reason does.
func (w AppReason) Wrong() string {
	switch w {
	case WhySendsTooMuch:
		return "sends more than its share, or too large messages"
	case WhyNotPlaced:
		return "lists copies that were not placed there"
	case WhyExitOfOther:
		return "reports the end of copies that were not there"
	}
	if w.unreadable() {
		return "sends messages that are not readable"
	}
	return "sends statements that do not count"
}

// unreadable reports whether messages are not readable, or parts of them.
func (w AppReason) unreadable() bool { return strings.HasPrefix(string(w), "bad_") }

// NodeName returns POOL/NODE, and NODE of a legacy DEA, which has no pool.
func NodeName(pool, node string) string {
	if pool == "" {
		return node
	}
	return pool + "/" + node
}

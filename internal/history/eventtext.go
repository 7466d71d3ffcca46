package history

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
)

// EventText returns an event as one line for people. The text of a finding has all of its fields; this line has those that an
// operator needs first.
func EventText(e api.Event) string {
	switch f := e.Data.(type) {
	case api.HealthNotification:
		if text := healthText(f.HealthFinding); text != "" {
			return text
		}
	case api.AppFinding:
		if text := appText(f); text != "" {
			return text
		}
	}
	return e.Text
}

// healthTexts are the findings about nodes and zones, after their names. A colon ends the name.
var healthTexts = map[api.HealthEvent]string{
	api.HealthNodeOK:           "is healthy",
	api.HealthNodeSuspect:      "fails",
	api.HealthNodeUnhealthy:    "is unhealthy",
	api.HealthNodeReplaced:     "is replaced by another node",
	api.HealthNodeGone:         "is gone: the provider does not list it any more",
	api.HealthNodeQuarantined:  "stays out of service: its repairs are used up",
	api.HealthNodeHeld:         "is unhealthy and its repairs are used up, but it stays in service",
	api.HealthNodeReleased:     "is released",
	api.HealthCheckUnknown:     "has no verdict",
	api.HealthCheckKnown:       "has a verdict again",
	api.HealthCheckVetoed:      "has a heartbeat, although the provider reports a failure",
	api.HealthRepairBlocked:    "waits for its repair",
	api.HealthRepairClaimed:    "is checked once more before its repair",
	api.HealthRepairStarted:    "is repaired",
	api.HealthRepairAttempt:    "gets its next repair",
	api.HealthRepairVerifying:  "is repaired and must stay healthy now",
	api.HealthRepairFailed:     "was not repaired by an action",
	api.HealthRepairSucceeded:  "is repaired and healthy",
	api.HealthRepairEnded:      "was not repaired",
	api.HealthFenceStarted:     "is fenced",
	api.HealthFenceConfirmed:   "is fenced: confirmed",
	api.HealthFenceUnconfirmed: "has no confirmed fence",
	api.HealthBreakerOpened:    "repairs are off: too many nodes of the pool are unhealthy",
	api.HealthBreakerClosed:    "repairs are on again",
	api.HealthZoneFrozen:       "has no repairs: too many of its nodes are unhealthy",
	api.HealthZoneThawed:       "has repairs again",
	api.HealthPathUp:           "the path of heartbeats is proven",
	api.HealthPathLost:         "the path of heartbeats is not proven, so silence is no failure",
	api.HealthRequestTaken:     ": repair requested",
	api.HealthRequestEnded:     ": the requested repair ended",
	api.HealthPauseTaken:       ": repairs are paused",
	api.HealthPauseEnded:       ": the pause of repairs ended",
	api.HealthPauseExpired:     ": the pause of repairs ran out",
	api.HealthOwnerChanged:     "another owner repairs the pool",
	api.HealthMissedEvent:      "checks were skipped",
}

// observedTexts are the findings whose order mode observe drops.
var observedTexts = map[api.HealthEvent]string{
	api.HealthRepairStarted:   "would be repaired now",
	api.HealthRepairAttempt:   "would be repaired by the next action now",
	api.HealthFenceStarted:    "would be fenced now",
	api.HealthNodeQuarantined: "would be taken out of service: its repairs are used up",
	api.HealthNodeReleased:    "would be released",
}

// healthText returns a finding of node health in words; empty: it has none.
func healthText(f api.HealthFinding) string {
	text := healthTexts[f.Event]
	if f.Observe {
		text = cmp.Or(observedTexts[f.Event], text)
	}
	if text == "" {
		return ""
	}
	switch {
	case f.Node != "":
		text = f.Node + " " + text
	case f.Zone != "":
		text = "zone " + f.Zone + " " + text
	}
	text = strings.TrimPrefix(strings.Replace(text, " : ", ": ", 1), ": ")
	if f.Action != "" {
		text += ", action " + string(f.Action)
	}
	if f.Observe {
		text += ", not done in mode observe"
	}
	if f.Why != "" {
		text += ": " + f.Why
	}
	return text
}

// appTexts are the findings about copies, after the name of the app and the copy, and the findings without an app.
var appTexts = map[api.AppFindingKind]string{
	api.AppFindingMissing:        "missing",
	api.AppFindingRecovered:      "runs again",
	api.AppFindingStart:          "start requested",
	api.AppFindingExtra:          "extra",
	api.AppFindingStop:           "stop requested",
	api.AppFindingNotNudged:      "waits",
	api.AppFindingCrashed:        "crashed",
	api.AppFindingFlapping:       "crashed again",
	api.AppFindingGaveUp:         "crashed too often, and is not started again",
	api.AppFindingDone:           "is done",
	api.AppFindingFailed:         "failed too often, and is not started again",
	api.AppFindingDecayed:        "ran for long enough: its crashes count no more",
	api.AppFindingRetried:        "is started again by an operator",
	api.AppFindingUpdated:        "is updated",
	api.AppFindingHalted:         "has a halted update",
	api.AppFindingNotReady:       "is not ready",
	api.AppFindingReady:          "is ready again",
	api.AppFindingNodeLost:       "is silent",
	api.AppFindingInstanceLost:   "is lost: its node does not report it",
	api.AppFindingIgnored:        "ended, which changes nothing",
	api.AppFindingRefused:        "sent a message that is refused",
	api.AppFindingSenderWrong:    "sends statements that do not count",
	api.AppFindingSenderRight:    "sends valid statements again",
	api.AppFindingComplete:       "the state of all apps is complete",
	api.AppFindingIncomplete:     "the state of the apps is incomplete: nothing is started or stopped",
	api.AppFindingLimitHeld:      "nothing is started: too many copies were lost at once",
	api.AppFindingLimitThrottled: "starts go on at a tenth of the rate",
	api.AppFindingReleased:       "starts go on at the full rate",
}

// appText returns a finding of the harmonizer in words; empty: it has none.
func appText(f api.AppFinding) string {
	text := appTexts[f.Kind]
	if text == "" {
		return ""
	}
	node := api.NodeName(f.Pool, f.Node)
	switch {
	case f.App != "" && f.Count == 1:
		text = f.App + ": 1 copy " + text
	case f.App != "" && f.Count > 1:
		text = fmt.Sprintf("%s: %d copies %s", f.App, f.Count, text)
	case f.App != "" && (f.Kind == api.AppFindingUpdated || f.Kind == api.AppFindingHalted):
		text = strings.TrimSuffix(f.App+" "+text+" to "+f.Version, " to ")
	case f.App != "":
		text = fmt.Sprintf("%s: copy %d %s", f.App, f.Index, text)
	case node != "":
		text = "node " + node + " " + text
	}
	if f.App != "" && node != "" && (f.Kind == api.AppFindingExtra || f.Kind == api.AppFindingStop || f.Kind == api.AppFindingInstanceLost) {
		text += " on " + node
	}
	switch f.Kind {
	case api.AppFindingCrashed, api.AppFindingFlapping, api.AppFindingGaveUp:
		return text + exitText(f) // the reason repeats the kind
	}
	if f.Why != "" {
		text += " (" + strings.ReplaceAll(string(f.Why), "_", " ") + ")"
	}
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	return text
}

// exitText returns how a copy ended, to append; empty: it is unknown.
func exitText(f api.AppFinding) string {
	if f.Detail == "" {
		return ""
	}
	return ", " + strings.Replace(f.Detail, "exit status ", "exit ", 1)
}

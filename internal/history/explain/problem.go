package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
)

// Each function of this file returns one problem as one line: the state, since when, why,
// what follows, and what to do.

// Process describes a process that does not run, or runs with a problem; empty if
// neither is the case.
func Process(now time.Time, p api.Process) string {
	if p.State == "running" && p.Why == "" {
		return ""
	}
	text := p.Title()
	if p.App != "" {
		text = "signal of app " + text
	}
	text += " is " + State(p) + since(now, p.Since)
	if p.Why != "" {
		text += ": " + p.Why
	}
	switch p.State {
	case "backoff":
		text += fmt.Sprintf("; bootstrap starts it again after a delay (%s so far)", prose.Count(p.Restarts, "restart"))
	case "fatal":
		text += "; bootstrap does not start it again by itself"
		if p.App != "" {
			text += fmt.Sprintf(": \"weir signal restart %s\" does", p.App)
		}
	case "not fetched":
		text += "; bootstrap repeats the download until it succeeds"
	}
	if p.App != "" && p.State != "running" {
		text += fmt.Sprintf("; \"weir signal logs %s\" shows its last output", p.App)
	}
	return text
}

// State returns the state of a process, to put after "is".
func State(p api.Process) string {
	if p.State == "backoff" {
		return "in backoff"
	}
	return p.State
}

// groupBackoff describes a group in backoff.
func groupBackoff(now time.Time, q api.GroupBackoff) string {
	follows := "other groups take its share until then"
	if q.KeepsTarget {
		follows = "its target stays as it is until then"
	}
	again := "with the next tick"
	if q.Until.After(now) {
		again = fmt.Sprintf("at %s", When(now, q.Until))
	}
	return fmt.Sprintf("group %s is in backoff%s, after %s in a row: %s; it is tried again %s, and %s",
		q.Group, since(now, q.Since), prose.Count(q.Failures, "failure"), q.Why, again, follows)
}

// removalBackoff returns that nodes of a group are not terminated for a while, and why.
func removalBackoff(now time.Time, q api.GroupBackoff) string {
	return fmt.Sprintf("no node of group %s is terminated%s, after %s in a row: %s; the next one is tried at %s",
		q.Group, since(now, q.Since), prose.Count(q.Failures, "failure"), q.Why, When(now, q.Until))
}

// maxCause bounds the cause of a crash, in bytes.
const maxCause = 200

// ReleaseRemedy returns the text to append to the description of an exit that reports a release that was not started;
// otherwise it is empty.
func ReleaseRemedy(description string) string {
	release, ok := strings.CutPrefix(description, "release ")
	ref, _, found := strings.Cut(release, " not started: ")
	if !ok || !found {
		return ""
	}
	return fmt.Sprintf("; run \"weir release verify %s\", or publish a new version", ref)
}

// Crashes describes an application with instances that crash repeatedly; givenUp of them are not started again. crashes
// are its known crashes, in any order: the first gives the time, the last the cause.
func Crashes(now time.Time, app string, n api.AppCount, givenUp int, crashes []api.AppCrash) string {
	text := fmt.Sprintf("application %s: %d of %d instances crash repeatedly", app, n.Flapping, n.Expected)
	if len(crashes) > 0 {
		byTime := func(a, b api.AppCrash) int { return a.At.Compare(b.At) }
		text += since(now, slices.MinFunc(crashes, byTime).At)
		if last := slices.MaxFunc(crashes, byTime); last.Description != "" {
			text += ": " + prose.Words(last.Description, maxCause) + ReleaseRemedy(last.Description)
		} else if last.Status != nil {
			text += fmt.Sprintf(": exit status %d", *last.Status)
		}
	}
	if givenUp < n.Flapping {
		text += "; each restart waits longer"
	}
	if givenUp > 0 {
		text += fmt.Sprintf("; %s given up and not started again: correct the cause, then run \"weir app retry %s\"",
			prose.Plural(givenUp, "instance is", "instances are"), app)
	}
	return text + fmt.Sprintf("; \"weir app crashes %s\" lists the crashes, \"weir app logs %s\" shows the last output", app, app)
}

// MoreCrashes describes further applications with instances that crash repeatedly.
func MoreCrashes(names []string) string {
	return fmt.Sprintf("%s crash repeatedly: %s; \"weir app list\" lists them", prose.Plural(len(names), "more application has instances that", "more applications have instances that"), List(names))
}

// Fallback describes an app whose own signal gave no request at a tick.
func Fallback(now, tick time.Time, app api.ResolvedRequest) string {
	return fmt.Sprintf("app %s is served by %s since the tick of %s, or before: %s; the pool does not shrink until its own signal responds; \"weir signal logs %s\" shows the output of the signal",
		app.App, Source(app.Source), When(now, tick), app.Why, app.App)
}

// tickFailed describes a tick that ended early.
func tickFailed(now, tick time.Time, why string) string {
	return fmt.Sprintf("the last tick ended early at %s: %s; targets stay as they are, and the next tick tries again; \"weir explain\" shows the tick",
		When(now, tick), why)
}

// Drift describes a group whose target another program set.
func Drift(now, tick time.Time, d api.Drift) string {
	return fmt.Sprintf("another program set the target of %s to %d, after weir set %d, found at %s; autoscaling.drift decides what follows: weir accepts it (obey) or sets its own target again (correct); stop the other program, or exclude the group from that program",
		d.Group, d.Found, d.LastTarget, When(now, tick))
}

// failedAction describes a call of a tick that failed.
func failedAction(now, tick time.Time, a api.Action) string {
	return fmt.Sprintf("%s failed at %s: %s; a later tick tries again if it still needs the change; \"weir explain\" shows the tick",
		a, When(now, tick), a.Error)
}

// Waits describes an app instance that waits: since when, why, and what happens next. more is the number of further instances of the app that
// wait for the same reason.
func Waits(now time.Time, c api.PendingCopy, more int, next string) string {
	text := fmt.Sprintf("%s/%d waits%s: %s%s", c.App, c.Index, since(now, c.Since), cmp.Or(c.Why, "no node has room"), wanted(c))
	if more > 0 {
		text += " (and " + prose.Plural(more, "more instance", "more instances") + ")"
	}
	return text + "; " + next
}

// wanted returns the requirements of an instance beside room: " (it wants a node with disk=ssd in zone eu-1a)".
func wanted(c api.PendingCopy) (text string) {
	for i, key := range slices.Sorted(maps.Keys(c.Labels)) {
		if i == maxWanted {
			text += " ..."
			break
		}
		text += " " + key + "=" + c.Labels[key]
	}
	if text != "" {
		text = " with" + text
	}
	if c.Zone != "" {
		text += " in zone " + c.Zone
	}
	if text == "" {
		return ""
	}
	return " (it wants a node" + text + ")"
}

// maxWanted bounds the labels in a line.
const maxWanted = 5

// NextOfWait describes what happens next for an app instance that waits for room, by the last tick of its pool; nil: unknown.
func NextOfWait(c api.PendingCopy, r *api.TickRecord) string {
	switch {
	case r == nil:
		return "no tick of the pool is known, so nothing is known to add machines"
	case r.Paused != nil:
		return "the pool is paused, so no machine is added until \"weir resume\""
	case r.Case == nil || r.Result == nil:
		return "the last tick did not decide: " + r.Failed
	}
	if p := r.Case.Places; p != nil {
		if i := slices.IndexFunc(p.Short, func(a api.PlacesApp) bool { return a.App == c.App }); i >= 0 {
			return "no machine is added for it now: " + p.Short[i].Why
		}
	}
	target, most := r.Result.Target, r.Case.Input.Policy.Limits.Max
	switch {
	case target > r.Snapshot.Joined:
		return fmt.Sprintf("machines are added: target %s, %s joined", Number(target), Number(r.Snapshot.Joined))
	case c.Since.After(r.At):
		return "the next tick counts it"
	case target >= most:
		return fmt.Sprintf("the pool is at its maximum of %s: raise scaling_limits.max_capacity", Number(most))
	}
	return "\"weir explain --why-not up\" shows what holds the pool"
}

// Breaker describes an open breaker.
func Breaker(now time.Time, b api.Breaker) string {
	what := "breaker of the pool is open"
	if !b.Pool {
		what = "zone " + b.Zone + " is frozen"
		if b.Zone == "" {
			what = "the zone without a name is frozen"
		}
	}
	text := fmt.Sprintf("%s%s: %s; ", what, since(now, b.Since), b.Why)
	if b.Manual {
		return text + "repairs resume only after \"weir node release\""
	}
	return text + fmt.Sprintf("repairs resume %s after at most %s unhealthy; \"weir node release\" resumes them now",
		seconds.Short(time.Duration(b.CloseAfter)), prose.Plural(b.CloseAt, "node is", "nodes are"))
}

// since returns " since 2026-11-29T07:03:18Z, 3m10s ago"; empty for an unknown time.
func since(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" since %s", When(now, t))
}

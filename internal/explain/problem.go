package explain

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// Each function of this file returns one problem as one line: the state, since when, why,
// what follows, and what to do.

// Process describes a process that does not run, or runs with a problem; empty if
// neither is the case.
func Process(now time.Time, p bootstrap.Process) string {
	if p.State == "running" && p.Why == "" {
		return ""
	}
	text := p.Title() + " is " + p.State + since(now, p.Since)
	if p.Why != "" {
		text += ": " + p.Why
	}
	switch p.State {
	case "backoff":
		text += fmt.Sprintf("; bootstrap starts it again after a delay (%s so far)", count(p.Restarts, "restart"))
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

// Group describes a group in backoff.
func Group(now time.Time, q plan.Backoff) string {
	follows := "other groups take its share until then"
	if q.KeepsTarget {
		follows = "its target stays as it is until then"
	}
	return fmt.Sprintf("group %s is in backoff%s, after %s in a row: %s; it is tried again at %s, in %s, and %s",
		q.Group, since(now, q.Since), count(q.Failures, "failure"), q.Why, clock(q.Until), Ago(q.Until, now), follows)
}

// Crashes describes an application with instances that crash repeatedly.
func Crashes(app string, n message.AppCount) string {
	return fmt.Sprintf("application %s: %d of %d instances crash repeatedly; each restart waits longer; "+
		"\"weir app crashes %s\" lists the crashes, \"weir app logs %s\" shows the last output", app, n.Flapping, n.Expected, app, app)
}

// Breaker describes an open breaker.
func Breaker(now time.Time, b judge.Breaker) string {
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
	return text + fmt.Sprintf("repairs resume %v after at most %s unhealthy; \"weir node release\" resumes them now",
		b.CloseAfter, plural(b.CloseAt, "node is", "nodes are"))
}

// since returns " since 15:04:05, 3m10s ago"; empty for an unknown time.
func since(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" since %s, %s ago", clock(t), Ago(now, t))
}

func count(n int, what string) string { return plural(n, what, what+"s") }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

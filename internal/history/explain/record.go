package explain

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Record prints one tick.
func Record(w io.Writer, r api.TickRecord, now time.Time) {
	fmt.Fprintf(w, "pool %s/%s, tick of %s (%s ago), took %s\n",
		r.Cluster, r.Pool, Time(r.At), Ago(now, r.At), seconds.Short(r.Took.Round(time.Millisecond)))
	if r.DryRun {
		fmt.Fprintln(w, "dry run: no request to the provider")
	}
	for _, p := range r.Problems {
		terminal.Problem(w, p)
	}
	if r.Configuration != nil {
		fmt.Fprintf(w, "configuration changed: %s\n", r.Configuration)
	}
	if h := r.ConfigurationHold; h != nil && h.Left {
		terminal.Problem(w, h.Why)
	}
	switch {
	case r.Paused != nil:
		fmt.Fprintf(w, "paused %s\n", Note(*r.Paused))
		if r.Case == nil || r.Result == nil || r.Detail == nil {
			return
		}
		fmt.Fprintln(w, "without the pause the next tick would do this:")
	case r.Failed != "":
		terminal.Problem(w, "ended before a decision: "+r.Failed)
		return
	case r.Case == nil || r.Result == nil || r.Detail == nil:
		fmt.Fprintln(w, "! incomplete record: another version of weir wrote it")
		return
	}
	for _, d := range r.Drift {
		fmt.Fprintf(w, "! another program set the target of %s to %d, after weir set %d\n", d.Group, d.Found, d.LastTarget)
	}
	writeSignals(w, r, now)
	fmt.Fprintf(w, "\nrequest  %s\n", r.Detail.Request)
	fmt.Fprintln(w, "\nsteps")
	for _, s := range r.Result.Steps {
		fmt.Fprintf(w, "  %-26s %8s -> %-8s %s\n", s.Rule, Number(s.Before), Number(s.After), s.Why)
	}
	writeGroups(w, r)
	writeAccount(w, r.Account)
	writeCost(w, r.Cost)
	writeActions(w, r)
}

func writeSignals(w io.Writer, r api.TickRecord, now time.Time) {
	fmt.Fprintln(w, "\nsignals")
	signal := func(app string, o api.Opinion) {
		version := o.Version
		if version == "" {
			version = "shipped"
		}
		what := ""
		if of := sigproto.AppOf(app); of != app {
			what = "advisor of " + of + ": "
		}
		fmt.Fprintf(w, "  %-14s %s%s %s: %s", app, what, o.Signal, version, cmp.Or(string(o.Verdict), "no answer yet"))
		if o.Verdict == api.VerdictValue {
			fmt.Fprintf(w, " %s, in %s, %s ago", o.Request, seconds.Short(o.Latency.Round(10*time.Microsecond)), Ago(r.At, o.At))
		}
		if o.Why != "" {
			fmt.Fprintf(w, " (%s)", o.Why)
		}
		if o.Explanation != "" && o.Explanation != o.Why {
			fmt.Fprintf(w, "; %s", o.Explanation)
		}
		fmt.Fprintln(w)
	}
	for _, app := range r.Case.Input.Apps {
		if app.Configured {
			signal(app.Name, app.Opinion)
		}
		for _, a := range app.Raise {
			signal(a.Name, a.Opinion)
		}
	}
	signal(sigproto.DefaultApp, r.Case.Input.Default)
	for _, u := range r.InProgress {
		fmt.Fprintf(w, "  %-14s evaluation under way for %s, time limit %s\n", u.App, Ago(r.At, u.Since), seconds.Short(u.Limit))
	}
	for _, app := range r.Detail.Apps {
		if app.Source == api.FromSignal && len(app.Held) == 0 {
			continue
		}
		fmt.Fprintf(w, "  %-14s is served by %s: %s (%s)\n", app.App, Source(app.Source), app.Request, app.Why)
	}
}

// Source returns a readable name for the source of an app's request.
func Source(s api.RequestSource) string {
	switch s {
	case api.FromSignal:
		return "its signal"
	case api.FromDefault:
		return "the default signal"
	case api.FromHeld:
		return "its last value"
	}
	return "no signal"
}

func writeGroups(w io.Writer, r api.TickRecord) {
	fmt.Fprintf(w, "\ngroups (joined %s of %s, target %s)\n", Number(r.Snapshot.Joined), Number(r.Snapshot.Fulfilled), Number(Target(r)))
	for _, line := range slices.Concat(RotationLines(r), WindowLines(r)) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	for _, line := range neverJoin(r) {
		fmt.Fprintf(w, "  ! %s\n", line)
	}
	if r.Detail.Refused != "" {
		fmt.Fprintf(w, "  ! %s\n", r.Detail.Refused)
	}
	held := plan.InBackoff(r.State.Backoffs, r.State.Clock)
	for _, share := range r.Detail.Distribution.Shares {
		_, busy := r.Case.Busy[share.Group]
		if _, waits := held[share.Group]; busy || waits {
			fmt.Fprintf(w, "  %s %d (not changed)", share.Group, share.After)
		} else {
			fmt.Fprintf(w, "  %s", share)
		}
		if c := r.Detail.Committed[share.Group]; c > 0 {
			fmt.Fprintf(w, ", and %s leaving", Number(c))
		}
		fmt.Fprintln(w)
	}
	for _, q := range plan.Held(r.State.Backoffs, r.State.Clock) {
		fmt.Fprintf(w, "  ! %s is in backoff until %s: %s\n", q.Group, Time(q.Until), q.Why)
	}
	for _, group := range slices.Sorted(maps.Keys(r.Case.Busy)) {
		fmt.Fprintf(w, "  ! %s is not changed: %s\n", group, r.Case.Busy[group])
	}
	for _, group := range slices.Sorted(maps.Keys(r.Case.Keeps)) {
		fmt.Fprintf(w, "  ! %s keeps its nodes: %s\n", group, r.Case.Keeps[group])
	}
	for _, line := range Markets(r) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if short := r.Detail.Distribution.Shortfall; short != 0 {
		fmt.Fprintf(w, "  ! %d could not be distributed: every group is at its bound, keeps nodes for their copies, or is not changed\n", short)
	}
	for _, kept := range r.Detail.Kept {
		fmt.Fprintf(w, "  %d nodes stay above the target: %s\n", kept.Nodes, kept.Text())
	}
}

// writeAccount prints the parts of the groups' targets.
func writeAccount(w io.Writer, account api.Account) {
	plain := func(e api.AccountEntry) bool {
		return e.Kind == api.EntryShare || (e.Kind == api.EntryWanted || e.Kind == api.EntryOffset) && e.Group == ""
	}
	if !slices.ContainsFunc(account, func(e api.AccountEntry) bool { return !plain(e) && e.Weight != 0 }) {
		return // it has nothing more than the targets
	}
	fmt.Fprintln(w, "\naccount of the targets, after the actions")
	var groups []string
	parts, sums := map[string][]string{}, map[string]float64{}
	for _, e := range account {
		text := fmt.Sprintf("%s %s", e.Kind, Number(e.Weight))
		if e.Node != "" {
			text += " (" + e.Node + ")"
		}
		if parts[e.Group] == nil {
			groups = append(groups, e.Group)
		}
		parts[e.Group], sums[e.Group] = append(parts[e.Group], text), sums[e.Group]+e.Weight
	}
	for _, group := range groups {
		if group == "" {
			fmt.Fprintf(w, "  pool: %s\n", strings.Join(parts[group], ", "))
		} else {
			fmt.Fprintf(w, "  %s %s = %s\n", group, Number(sums[group]), strings.Join(parts[group], " + "))
		}
	}
}

func writeActions(w io.Writer, r api.TickRecord) {
	fmt.Fprintln(w, "\nrequests to the provider")
	if len(r.Actions) == 0 {
		fmt.Fprintln(w, "  nothing")
	}
	for _, a := range r.Actions {
		text := "  " + a.String()
		if a.Op == api.OpSetTarget {
			text += fmt.Sprintf(" %d", a.Target)
		}
		if a.What != "" {
			text += " (" + a.What + ")"
		}
		if a.Latency > 0 {
			text += fmt.Sprintf(", in %s", seconds.Short(a.Latency.Round(10*time.Microsecond)))
		}
		if a.Error != "" {
			text += ": " + a.Error
		} else {
			text += ": ok"
		}
		fmt.Fprintln(w, text)
	}
	for _, d := range r.Drains {
		fmt.Fprintf(w, "  leaving: %s of %s, %s since %s (%s)\n", d.Node, d.Group, d.State, When(r.At, d.Since), d.Reason)
		for _, b := range r.Blocked[d.Node] {
			fmt.Fprintf(w, "    waits for %s\n", blockedText(r.At, b))
		}
	}
}

// Number formats a capacity with at most two decimals. Up to 1e15 it has no exponent.
func Number(x float64) string {
	const exact, long, whole = 1e4, 999999.5, 1e15 // up to the first, two decimals have at most six digits
	switch size := math.Abs(x); {
	case size >= long && size < whole:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case size >= exact:
		return Quantity(x)
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", x), "0"), ".")
}

// Quantity formats a number with at most six digits.
func Quantity(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

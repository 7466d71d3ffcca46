package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/resource"
)

// MaxReasons bounds the lines of one kind before the tables.
const MaxReasons = 5

// UnansweredLines returns a line for each request that no scheduler confirmed in time: those of a pool, or all for an
// empty name.
func UnansweredLines(now time.Time, s api.HarmonizerStatus, pool string) (lines []string) {
	more := s.UnansweredApps - len(s.Unanswered)
	for _, u := range s.Unanswered {
		if pool != "" && u.Pool != "" && u.Pool != pool || u.Kind != "" {
			continue
		}
		if len(lines) == MaxReasons {
			more++
			continue
		}
		what, where, start := "start", "", "weir placer"
		if u.Stop {
			what = "stop"
		}
		if u.Pool != "" {
			where, start = " of pool "+u.Pool, "weir placer "+u.Pool
		}
		lines = append(lines, fmt.Sprintf("no placer%s answers requests to %s instances of %s, since %s: start %q, or see its log",
			where, what, u.App, explain.Ago(now, u.Since), start))
	}
	if len(lines) > 0 && more > 0 {
		lines = append(lines, fmt.Sprintf("requests for %d more applications have no answer", more))
	}
	return lines
}

// RefusedLines returns a line for each application in a pool whose scheduler runs none: those of a pool, or all for an empty name.
func RefusedLines(s api.HarmonizerStatus, pool string) (lines []string) {
	for _, u := range s.Unanswered {
		if u.Kind != "" && (pool == "" || u.Pool == pool) && len(lines) < MaxReasons {
			lines = append(lines, fmt.Sprintf("application %s does not run: %s", u.App, api.NoRowsText(u.Pool, u.Kind)))
		}
	}
	return lines
}

// WrongLines returns a line for each node that sends statements that do not count, or too much: those of a pool, or all for an
// empty name.
func WrongLines(s api.HarmonizerStatus, pool string) (lines []string) {
	more := s.WrongSenders - len(s.Wrong)
	for _, w := range s.Wrong {
		switch {
		case pool != "" && w.Pool != pool:
		case len(lines) == MaxReasons:
			more++
		default:
			lines = append(lines, w.String())
		}
	}
	if len(lines) > 0 && more > 0 {
		lines = append(lines, fmt.Sprintf("%d more nodes send what changes nothing", more))
	}
	return lines
}

// HaltedLines returns a line for each application whose update is halted: those of a pool, or all for an empty name.
func HaltedLines(s api.HarmonizerStatus, pool string) (lines []string) {
	more := s.HaltedApps - len(s.Halted)
	for _, h := range s.Halted {
		switch {
		case pool != "" && h.Pool != pool:
		case len(lines) == MaxReasons:
			more++
		default:
			lines = append(lines, h.String(h.App))
		}
	}
	if len(lines) > 0 && more > 0 {
		lines = append(lines, fmt.Sprintf("the updates of %d more applications are halted", more))
	}
	return lines
}

// HeldLines returns a line for each reason that holds starts and stops after a mass loss.
func HeldLines(b api.LimitStatus) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if b.State != "" {
		add("disruption limit active: %d instances on %d nodes were lost at once (%.0f %%): %s; \"weir harmonizer release\" ends it",
			b.Indices, b.Nodes, 100*b.Share, limitEffect(b))
	}
	if b.RowsGone > 0 {
		until := "until the source of the expected state confirms it, or the rows return"
		if b.RowsNeedRelease {
			until = `until the rows return; if the apps were deleted, "weir harmonizer release" confirms it`
		}
		add("%d of %d rows of the expected state are gone at once: apps without a row are not stopped %s", b.RowsGone, b.RowsOf, until)
	}
	if b.RowsStopped > 0 {
		until := "until the source of the expected state confirms it"
		if b.NeedsRelease {
			until = `until "weir harmonizer release"`
		}
		add("%d of %d apps are to stop at once: none of them is stopped %s", b.RowsStopped, b.RowsStoppedOf, until)
	}
	if b.WithoutRow > 0 {
		add("%d of %d instances run apps without a row: they are not stopped until the rows exist; if the apps were deleted, \"weir harmonizer release\" confirms it",
			b.WithoutRow, b.WithoutRowOf)
	}
	return lines
}

func limitEffect(b api.LimitStatus) string {
	if b.Holds() {
		return "nothing is started or stopped"
	}
	return "starts continue at a tenth of the rate, stops are held"
}

// Wait is why instances of one application wait, all for the same reason.
type Wait struct {
	App   string
	Line  string    // for people
	Since time.Time // of the first one
	Lasts bool      // until a person changes something
}

// WaitReasons returns why instances of a pool wait: those that nodes reject, then the others, oldest first, then the ports that
// nodes refused. r is the last tick of the pool; nil:
// unknown.
func WaitReasons(now time.Time, p api.Pending, r *api.TickRecord) (all []Wait) {
	type reason struct{ app, why string }
	more := map[reason]int{}
	copies := slices.Concat(p.Rejected, p.Copies)
	for _, c := range copies {
		more[reason{c.App, c.Why}]++
	}
	for i, c := range copies {
		of := reason{c.App, c.Why}
		n := more[of]
		if n == 0 {
			continue // the first one has the line
		}
		more[of] = 0
		w := Wait{App: c.App, Since: c.Since, Lasts: true}
		switch {
		case i < len(p.Rejected):
			w.Line = explain.Waits(now, c, n-1, "the placer tries it again")
		case c.Never:
			w.Line = NeverLine(api.PlacesApp{App: c.App, Why: c.Why})
		case strings.HasPrefix(c.Why, noNodeCan):
			w.Line = explain.Waits(now, c, n-1, remedy)
		default:
			w.Line, w.Lasts = explain.Waits(now, c, n-1, explain.NextOfWait(c, r)), false
		}
		all = append(all, w)
	}
	for _, t := range p.Taken {
		all = append(all, Wait{App: t.App, Line: takenLine(t), Lasts: true})
	}
	return all
}

// takenLine returns why no instance with a fixed port goes to a node.
func takenLine(t api.TakenPort) string {
	return fmt.Sprintf("port %d of node %s is in use by another process: instances of %s go to other nodes if there are any, until %s", t.Port, t.Node, t.App, explain.Time(t.Until))
}

// waits returns why instances wait, and what each needs: those of the first one of each application. Without a response of the placer the
// reasons are unknown.
func (a standingParts) waits() (why, each map[string]string) {
	if a.pending.err != nil {
		return nil, nil
	}
	why, each = map[string]string{}, map[string]string{}
	for _, c := range slices.Concat(a.pending.value.Rejected, a.pending.value.Copies) {
		text := c.Why
		if c.Never {
			text = api.PlacesApp{App: c.App, Why: c.Why}.NeverText()
		}
		why[c.App], each[c.App] = cmp.Or(why[c.App], text), cmp.Or(each[c.App], footprint(c.Footprint))
	}
	return why, each
}

// footprint returns what an instance needs: "0.2 cpus, 64 MB of mem".
func footprint(v resource.Vector) string {
	var parts []string
	for _, k := range resource.Kinds() {
		switch {
		case v[k] == 0:
		case k == resource.Mem || k == resource.Disk:
			parts = append(parts, explain.Number(v[k])+" MB of "+k.String())
		default:
			parts = append(parts, explain.Number(v[k])+" "+k.String())
		}
	}
	return strings.Join(parts, ", ")
}

// NeverLine returns the line about an application whose instances no machine can hold.
func NeverLine(app api.PlacesApp) string { return app.NeverText() + "; " + remedy }

const remedy = "lower its resources with \"weir app set\", or add larger machines"

// noNodeCan begins the reason of a scheduler for an instance that no node can hold, while the machines that the pool can add
// are unknown to it.
const noNodeCan = "no node can hold it"

// Package cell has the cells of tables that several nouns print: times, sizes, machines and processes.
//
// A command collects cells into rows, and passes the rows to Root.PrintTable of package command. [Node] and [Processes]
// return whole rows. A cell has no line break, and no column is coloured. The functions may be called concurrently.
package cell

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/resource"
)

// OrDash returns a text, or "-" for an empty one.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// After returns a text behind a sign, or nothing for an empty text.
func After(sign, text string) string {
	if text == "" {
		return ""
	}
	return sign + text
}

// Bytes formats a number of bytes with its unit.
func Bytes(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// Node are the columns node, group, state, tasks, cpus, mem MB and up.
func Node(n api.Node) []string {
	usage := func(k resource.Kind) string {
		if n.Facts == nil {
			return "-"
		}
		return explain.Number(n.Facts.Allocated[k]) + "/" + explain.Quantity(n.Facts.Resources[k])
	}
	up := "-"
	if n.Uptime > 0 {
		up = explain.Ago(time.Unix(0, 0).Add(time.Duration(n.Uptime*float64(time.Second))), time.Unix(0, 0))
	}
	return []string{n.Node, cmp.Or(n.Group, "-"), n.State, fmt.Sprint(n.Tasks), usage(resource.CPUs), usage(resource.Mem), up}
}

// Processes returns a table of processes. A candidate is below the process that it may replace.
func Processes(list []api.Process, now time.Time) (header []string, rows [][]string) {
	for _, p := range list {
		name := cmp.Or(p.App, p.Signal)
		rows = append(rows, process(p, name, now))
		if c := p.Candidate; c != nil {
			rows = append(rows, process(*c, name+"(candidate)", now))
		}
	}
	return []string{"process", "signal", "version", "state", "pid", "since", "restarts", "why"}, rows
}

func process(p api.Process, title string, now time.Time) []string {
	why := p.Why
	if why == "" && p.Trial != nil {
		why = "shadow " + p.Trial.Shadow + " " + Trial(now, *p.Trial)
	}
	state := p.State
	if p.Alive != nil && p.Alive.Overdue {
		state, why = "silent", explain.Silence(now, *p.Alive)
	}
	if p.Yanked != "" {
		why = strings.TrimSuffix("yanked: "+p.Yanked+"; "+why, "; ")
	}
	signal := "-"
	if p.App != "" {
		signal = p.Signal
	}
	return []string{title, signal, OrDash(p.Version), state, pid(p.PID), explain.Ago(now, p.Since), fmt.Sprint(p.Restarts), why}
}

func pid(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// Trial describes the state of a trial.
func Trial(now time.Time, t api.TrialStatus) string {
	switch {
	case t.Outcome == api.TrialUndecided && t.PromoteAfter > 0:
		return fmt.Sprintf("agrees for %d of %d ticks", t.Agreeing, t.PromoteAfter)
	case t.Outcome == api.TrialUndecided:
		return fmt.Sprintf("agrees for %d ticks, of %d that were compared; never promoted", t.Agreeing, t.Compared)
	case t.Why != "":
		return fmt.Sprintf("%s at %s: %s", strings.ReplaceAll(string(t.Outcome), "_", " "), explain.When(now, t.Since), t.Why)
	}
	return fmt.Sprintf("%s at %s", strings.ReplaceAll(string(t.Outcome), "_", " "), explain.When(now, t.Since))
}

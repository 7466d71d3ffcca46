package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/smalldisk"
)

const (
	faultInstances = 50
	faultHold      = 20 * time.Second // of a fault that is taken back, at most
	faultShown     = 5 * time.Second  // of a fault that is taken back, after status has shown it
	faultSilence   = 30 * time.Second // with a wrong state that status does not show, at most
	faultStays     = 20 * time.Second // damage that status shows and that needs an operator
	faultRecovers  = 8 * time.Minute  // at most: a breaker stays open for 5 minutes after the nodes are healthy
	settledTicks   = 3                // after which a state counts as wanted
)

// fault is one of those that a running "weir up" must bear.
type fault struct {
	name  string
	begin func(w *faultWorld)
	end   func(w *faultWorld) // takes it back; nil: weir does that by itself
	stays bool                // it may need an operator: then it is enough that status shows it
}

// measured is what came of a fault.
type measured struct {
	fault     string
	recovered time.Duration // until the state was as wanted; 0: it stays
	shown     time.Duration // until the first line of status was a warning; 0: never
	silent    time.Duration // the longest time of a wrong state without a warning
	said      string        // the first warning
	last      string        // the one that stays, if the state is not as wanted
	lost      string
}

// faultWorld is a "weir up" with an application of many instances.
type faultWorld struct {
	*testing.T
	u    *upProcess
	data string
	nats string // a bus outside of it; empty: it has its own
	pids []int  // that a fault was done to
}

// faultsFor returns how long TestFaults does faults, of FAULTS: a duration, in which each fault
// is done at least once. Without it, few are done once.
func faultsFor(t *testing.T) (length time.Duration, all bool) {
	t.Helper()
	text := os.Getenv("FAULTS")
	if text == "" {
		return 0, false
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("FAULTS is %q: want a duration such as 1h, or 0s for each fault once", text)
	}
	return length, true
}

// TestFaults does faults to a running "weir up". After each one its state is as wanted again, or
// the first line of "weir status" shows the problem. FAULT, a regular expression, selects some.
func TestFaults(t *testing.T) {
	t.Parallel()
	length, all := faultsFor(t)
	if !all {
		w := newFaultWorld(t, t.TempDir(), "")
		w.do(fault{name: "kill -9 signal", begin: killRole("signal")})
		w.do(clockOfAgent(time.Hour))
		return
	}
	data, inside := smalldisk.On(t, 1<<30, ".")
	if !inside {
		return
	}
	began := time.Now()
	var table []measured
	for round := 1; round == 1 || time.Since(began) < length; round++ {
		w := newFaultWorld(t, filepath.Join(data, fmt.Sprint("weir", round)), "")
		table = append(table, w.doAll(append(runningFaults(), damages(w)...))...)
		w.close()
		bus := startConvergeBus(t)
		w = newFaultWorld(t, filepath.Join(data, fmt.Sprint("bus", round)), fmt.Sprintf("nats://127.0.0.1:%d", bus.port))
		table = append(table, w.doAll(busFaults(bus))...)
		w.close()
	}
	var out strings.Builder
	rows := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "fault\trecovered\tshown after\twrong and not shown\tlost\tstatus")
	for _, m := range table {
		fmt.Fprintln(rows, m)
	}
	rows.Flush()
	t.Logf("%d faults in %v:\n%s", len(table), time.Since(began).Round(time.Second), out.String())
}

// doAll does the faults that FAULT selects.
func (w *faultWorld) doAll(faults []fault) (table []measured) {
	w.Helper()
	pattern, err := regexp.Compile(os.Getenv("FAULT"))
	if err != nil {
		w.Fatalf("FAULT: %v", err)
	}
	for _, f := range faults {
		if pattern.MatchString(f.name) {
			table = append(table, w.do(f))
			w.Log(table[len(table)-1])
		}
	}
	return table
}

// String is a row of the table.
func (m measured) String() string {
	seconds := func(d time.Duration, none string) string {
		if d == 0 {
			return none
		}
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	said := cmp.Or(m.last, m.said, "-")
	return strings.Join([]string{
		m.fault, seconds(m.recovered, "stays"), seconds(m.shown, "never"), seconds(m.silent, "0s"), m.lost, fmt.Sprintf("%.700s", said),
	}, "\t")
}

// newFaultWorld starts "weir up" with 50 instances of an application.
func newFaultWorld(t *testing.T, data, nats string) *faultWorld {
	t.Helper()
	w := &faultWorld{T: t, data: data, nats: nats}
	w.launch()
	w.u.waitFor(t, "ready in")
	w.u.weir(t, "app", "set", "web", "--instances", fmt.Sprint(faultInstances), "--cpus", "0.1", "--mem", "16", "--command", "exec sleep 100000")
	w.u.waitRunning(t, "web", faultInstances)
	eventually(t, "a status without a warning", func() error {
		if line, _ := w.look(); !asWanted(line) {
			return errors.New(line)
		}
		return nil
	})
	return w
}

// launch starts "weir up".
func (w *faultWorld) launch() {
	w.Helper()
	var args []string
	if w.nats != "" {
		args = []string{"--nats", w.nats}
	}
	w.u = launchUp(w.T, w.data, args...)
	w.u.nats = w.nats
}

// close ends "weir up" and gives the room of its files back.
func (w *faultWorld) close() {
	w.Helper()
	w.u.end(w.T)
	if err := os.RemoveAll(w.data); err != nil {
		w.Error(err)
	}
}

// look returns the first line of status, and what else keeps the state from being as wanted.
func (w *faultWorld) look() (line string, problem error) {
	r := w.u.run("--timeout", "3s", "status")
	line, _, _ = strings.Cut(cmp.Or(r.stdout, r.stderr), "\n")
	if !asWanted(line) {
		return line, errors.New(line)
	}
	s, err := runJSON[api.HarmonizerStatus](w.u, "app", "status", "web", "--timeout", "3s")
	if err != nil {
		return line, err
	}
	if s.App == nil {
		return line, errors.New("the harmonizer does not know web")
	}
	if n := s.App.Count; n.Running != faultInstances || n.Expected != faultInstances || n.Missing+n.Extra+n.Crashed > 0 {
		return line, fmt.Errorf("web is %+v", n)
	}
	return line, nil
}

// asWanted reports whether the first line of status is no warning and no error.
func asWanted(line string) bool { return strings.HasPrefix(line, "pool ") }

// copies returns the instances that are listed, and the last tick.
func (w *faultWorld) copies() (ids []string, tick *api.TickRecord, err error) {
	web, err := runJSON[api.HarmonizerStatus](w.u, "app", "status", "web", "--timeout", "3s")
	if err != nil {
		return nil, nil, err
	}
	if web.App != nil {
		for _, i := range web.App.Indices {
			for _, c := range i.Instances {
				ids = append(ids, c.ID)
			}
		}
	}
	s, err := runJSON[api.PoolStatus](w.u, "status", "--timeout", "3s")
	if err == nil && s.LastTick == nil {
		err = errors.New("no tick yet")
	}
	return ids, s.LastTick, err
}

// do does a fault and measures what comes of it.
func (w *faultWorld) do(f fault) measured {
	w.Helper()
	w.Logf("fault: %s", f.name)
	before, target, known := w.before()
	m := measured{fault: f.name}
	began := time.Now()
	w.pids = nil
	f.begin(w)
	stop := time.NewTimer(faultRecovers)
	defer stop.Stop()
	var good, silent time.Time // since when the state is as wanted; wrong without a warning
	var tick time.Time         // the last one
	ticks, over := 0, f.end == nil
	for {
		line, problem := w.look()
		now := time.Now()
		since := now.Sub(began)
		if !asWanted(line) && m.shown == 0 {
			m.shown, m.said = since, line
		}
		switch wrong := problem != nil; {
		case wrong && asWanted(line):
			if silent.IsZero() {
				silent = now
				w.Logf("%s: after %v status shows no warning, and %v", f.name, since.Round(time.Millisecond), problem)
			}
			if m.silent = max(m.silent, now.Sub(silent)); m.silent > faultSilence {
				w.Errorf("%s: for %v status does not show what is wrong: %v", f.name, m.silent, problem)
				silent = now
			}
		default:
			silent = time.Time{}
		}
		if !over && (since > faultHold || m.shown > 0 && since-m.shown > faultShown) {
			f.end(w)
			over, good, ticks = true, time.Time{}, 0
			continue // the read data is of the time before
		}
		if problem != nil {
			good, ticks, m.last = time.Time{}, 0, line
		} else {
			m.last = ""
			if good.IsZero() {
				good = now
			}
			if _, r, err := w.copies(); err == nil && !r.At.Equal(tick) {
				tick = r.At
				ticks++
			}
		}
		if over && ticks > settledTicks {
			m.recovered = max(good.Sub(began), time.Millisecond)
			break
		}
		if f.stays && !asWanted(line) && since > faultStays {
			break
		}
		select {
		case <-stop.C:
			w.Errorf("%s: the state is not as wanted after %v: %v; first line of status %q", f.name, faultRecovers, problem, line)
			m.lost = "everything"
			return m
		case <-time.After(250 * time.Millisecond):
		}
	}
	m.lost = w.lost(before, target, began)
	if !known {
		m.lost = "-" // nothing ran before
	}
	return m
}

// before returns the instances and the target before a fault; known is false if "weir up" does
// not run, or its damage stays, after the fault before.
func (w *faultWorld) before() (ids []string, target float64, known bool) {
	w.Helper()
	if _, problem := w.look(); problem != nil {
		return nil, 0, false
	}
	eventually(w.T, "a list of the instances", func() error {
		now, tick, err := w.copies()
		if err == nil {
			ids, target = now, tick.Snapshot.Target
		}
		return err
	})
	return ids, target, true
}

// lost compares with what there was before a fault. A pool whose need is the same must not
// shrink.
func (w *faultWorld) lost(before []string, target float64, began time.Time) string {
	var lost []string
	now, _, err := w.copies()
	if err != nil {
		lost = append(lost, "what runs cannot be listed")
	}
	ended := 0
	for _, id := range before {
		if err == nil && !slices.Contains(now, id) {
			ended++
		}
	}
	if ended > 0 {
		lost = append(lost, fmt.Sprintf("%d instances ended, %d are listed now", ended, len(now)))
	}
	r := w.u.run("explain", "--since", "10m", "--output", "json")
	for line := range strings.Lines(r.stdout) {
		if r, err := printedRecord([]byte(line)); err == nil && r.At.After(began) && r.Case != nil && r.Snapshot.Target < target {
			w.Errorf("the pool was lowered from %v to %v at %v", target, r.Snapshot.Target, r.At)
			lost = append(lost, "capacity")
			break
		}
	}
	return cmp.Or(strings.Join(lost, ", "), "nothing")
}

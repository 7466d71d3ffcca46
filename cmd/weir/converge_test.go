package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/bulkapi/bulktest"
	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
)

// The world of TestConvergence, and the harmonizer's intervals in it.
const (
	convergeRoom  = 800 // copies of a node
	convergeDelay = 500 * time.Millisecond

	convergeBeat      = convergePace
	convergeLost      = 3 * convergePace // droplet_lost
	convergeKeepAlive = 3 * convergePace
	convergeUpdate    = 2 * convergePace // expected_state_update
	convergeRowsLost  = 6 * convergePace // expected_state_lost
	convergeRate      = 10_000           // nudges of a second

	// convergePatience is for a machine that is busy with other tests, too.
	convergePatience = 4 * time.Minute

	// convergeSeed names the variable that has the seed of an earlier run.
	convergeSeed = "WEIR_CONVERGE_SEED"
)

// How many apps and nodes there are: the race detector makes each heartbeat ten times as
// expensive.
var (
	convergeApps  = testsize.Pick(20_000, 2_000)
	convergeNodes = testsize.Pick(200, 80)
	convergeFew   = convergeApps / 100 // apps that change at once, of each kind
)

// TestConvergence runs the harmonizer as a process of its own, with convergeApps apps on
// convergeNodes nodes. Each node has its own connection to a real NATS server. The bulk
// API over HTTP fails in every way. After each fault the nodes must run what the rows
// define. At no time may the harmonizer stop an instance that should run, or start one
// that should not.
func TestConvergence(t *testing.T) {
	t.Parallel()
	w := newConvergeWorld(t)
	p := w.newProcess()
	t.Cleanup(func() { t.Logf("output of weir harmonizer:\n%s", p.log()) })
	for _, phase := range []struct {
		name string
		run  func(*convergeWorld, *convergeProcess)
	}{
		{"cold start", func(_ *convergeWorld, p *convergeProcess) { p.start() }},
		{"nodes die, others are silent for a while", convergeSilence},
		{"rows change, instances crash, NATS is restarted", convergeChanges},
		{"a partition", convergePartition},
		{"the bulk API fails", convergeFaults},
	} {
		before, began := w.books(), time.Now()
		phase.run(w, p)
		w.converges(phase.name)
		now := w.books()
		t.Logf("%-50s %6v: %6d starts, %6d stops, %d needless", phase.name, time.Since(began).Round(100*time.Millisecond),
			now.starts-before.starts, now.stops-before.stops, now.needless-before.needless)
		if now.mistakes() > 0 {
			break
		}
	}
	w.expectQuiet()
	p.end()
	w.expectNoMistakes()
}

// newConvergeWorld makes bus, nodes and rows. Of what should run most runs
// already, and beside it some that should not.
func newConvergeWorld(t *testing.T) *convergeWorld {
	t.Helper()
	installations.take(t)
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv(convergeSeed); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("%s: %v", convergeSeed, err)
		}
	}
	t.Logf("%s=%d", convergeSeed, seed)
	bus := startConvergeBus(t)
	w := &convergeWorld{
		T: t, api: bulktest.New("bulk", "secret"), password: "secret", bus: bus, url: bus.server.ClientURL(),
		rng: rand.New(rand.NewPCG(seed, 0)), named: map[string]*convergeApp{}, byID: map[string]*convergeCopy{},
	}
	createStreams(t, w.url, convergeCluster)
	w.serveController()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		w.wg.Wait()
	})
	w.ctx = ctx
	for range convergeNodes {
		w.join()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := make([]bulktest.Row, 0, convergeApps)
	for i := range convergeApps {
		a := w.newApp(1 + min(w.rng.IntN(5), w.rng.IntN(5)))
		switch {
		case i%20 == 0:
			a.row.State = string(api.AppStopped)
		case i%20 == 1: // its new version is on its way, the old one runs
			a.row.Package = string(api.PackagePending)
		}
		rows = append(rows, a.row)
		w.populate(a)
	}
	w.api.Set(rows...)
	return w
}

// populate runs what ran before the harmonizer came.
func (w *convergeWorld) populate(a *convergeApp) {
	version := a.row.Version
	if !a.staged() {
		version = "v0"
	}
	for index := range a.row.Instances {
		chance := w.rng.IntN(100)
		if a.started() && chance < 85 || chance == 99 {
			w.run(w.room(), a, index, version, 0)
		}
	}
	if w.rng.IntN(100) == 0 {
		w.run(w.room(), a, a.row.Instances, version, 0) // beyond
	}
}

// converges waits until the world matches the rows, and the harmonizer reports it.
func (w *convergeWorld) converges(what string) {
	w.Helper()
	w.await(what, func() error {
		served, standIns, err := w.census()
		if err == nil {
			err = w.agrees(served, standIns)
		}
		return err
	})
}

// await calls look repeatedly until it returns nil.
func (w *convergeWorld) await(what string, look func() error) {
	w.Helper()
	limit := time.NewTimer(convergePatience)
	defer limit.Stop()
	pause := time.NewTicker(400 * time.Millisecond)
	defer pause.Stop()
	for {
		err := look()
		if err == nil {
			return
		}
		select {
		case <-limit.C:
			w.expectNoMistakes()
			w.Fatalf("%s: not within %v: %v", what, convergePatience, err)
		case <-pause.C:
		}
	}
}

func (w *convergeWorld) books() convergeTally {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tally
}

func (w *convergeWorld) expectNoMistakes() {
	w.Helper()
	now := w.books()
	w.Log(now)
	if now.mistakes() > 0 {
		w.Error("mistakes were made")
	}
	for _, example := range now.examples {
		w.Log(example)
	}
}

// expectQuiet waits until nothing was nudged for longer than a keep-alive.
func (w *convergeWorld) expectQuiet() {
	w.Helper()
	w.await("quiet", func() error {
		if age := time.Since(w.books().lastNudge); age < convergeKeepAlive+convergeBeat {
			return fmt.Errorf("the last nudge was %v ago", age)
		}
		return nil
	})
	w.converges("quiet")
}

// convergeSilence ends nodes, starts others in their place, and halts as many for
// longer than droplet_lost. What they ran is started elsewhere. When the halted
// ones are back, all that they run is there twice; in the middle of the stops the
// harmonizer is killed, and the next one of its folder goes on.
func convergeSilence(w *convergeWorld, p *convergeProcess) {
	w.kill(w.some(20))
	for range 20 {
		w.join()
	}
	silent := w.some(20)
	w.pause(silent, false)
	w.converges("what dead and silent nodes ran, elsewhere")
	before := w.books().stops
	w.resume(silent)
	w.await("stops", func() error {
		if w.books().stops == before {
			return errors.New("none comes")
		}
		return nil
	})
	p.kill()
	p.start()
}

// convergePartition cuts all nodes off: nothing may be nudged. Half of them come
// back, which proves that the bus is whole, and starts go on slowly. Then all are
// there, and what was started twice is stopped.
func convergePartition(w *convergeWorld, _ *convergeProcess) {
	all := w.some(len(w.nodes))
	w.pause(all, true)
	w.awaitDisruptionLimit(api.LimitHeld)
	before := w.books()
	w.passes(convergeBeat)
	if now := w.books(); now.starts != before.starts || now.stops != before.stops {
		w.Errorf("while no node was heard: %d starts, %d stops", now.starts-before.starts, now.stops-before.stops)
	}
	w.resume(all[len(all)/2:])
	back := time.Now()
	w.awaitDisruptionLimit(api.LimitThrottled)
	w.passes(convergeBeat)
	now, took := w.books(), time.Since(back)
	if n, most := now.starts-before.starts, convergeRate/10*(1+took.Seconds()); float64(n) > most {
		w.Errorf("%d starts in %v while the disruption limit was throttled, want at most %.0f", n, took, most)
	}
	if now.stops != before.stops {
		w.Errorf("%d stops while the disruption limit was throttled", now.stops-before.stops)
	}
	w.resume(all[:len(all)/2])
}

// awaitDisruptionLimit waits until the disruption limit is in that state.
func (w *convergeWorld) awaitDisruptionLimit(state api.LimitState) {
	w.Helper()
	w.await("the disruption limit "+string(state), func() error {
		s, err := w.status()
		if err == nil && s.DisruptionLimit.State != state {
			err = fmt.Errorf("%+v", s.DisruptionLimit)
		}
		return err
	})
}

// passes waits for the end of a span in which something might happen.
func (w *convergeWorld) passes(span time.Duration) {
	w.Helper()
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
	}
}

// convergeChanges changes rows in every way, has instances crash and doubles
// others. When the harmonizer has read the rows, nodes die and the bus is restarted,
// while its reactions are still running.
func convergeChanges(w *convergeWorld, _ *convergeProcess) {
	w.change()
	var first uint64
	w.await("a whole pass that began after the change", func() error {
		s, err := w.status()
		passes := s.Counters["source_complete"]
		if first == 0 {
			first = passes
		}
		if err == nil && passes < first+2 {
			err = fmt.Errorf("%d passes since", passes-first)
		}
		return err
	})
	w.bus.stop()
	w.kill(w.some(5))
	w.bus.start()
}

func (w *convergeWorld) change() {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := map[*convergeApp]bool{}
	well := func(a *convergeApp) bool { return a.started() && a.staged() && a.row.Instances > 1 }
	var rows []bulktest.Row
	change := func(n int, suits func(*convergeApp) bool, f func(*bulktest.Row)) {
		for i, a := range w.pick(n, taken, suits) {
			rows = append(rows, w.setRow(a, f))
			if i%2 == 0 {
				w.announce(a)
			}
		}
	}
	change(convergeFew, well, func(r *bulktest.Row) { r.Instances += 2 })
	change(convergeFew, well, func(r *bulktest.Row) { r.Instances-- })
	change(convergeFew, well, func(r *bulktest.Row) { r.Version += "n" })
	change(convergeFew, well, func(r *bulktest.Row) { r.State = string(api.AppStopped) })
	change(convergeFew, func(a *convergeApp) bool { return !a.started() }, func(r *bulktest.Row) { r.State = string(api.AppStarted) })
	change(convergeFew, func(a *convergeApp) bool { return a.started() && !a.staged() }, func(r *bulktest.Row) { r.Package = string(api.PackageStaged) })
	for _, a := range w.pick(convergeFew, taken, well) {
		a.absent = true
		w.api.Delete(a.row.ID)
	}
	for _, a := range w.pick(convergeFew, taken, well) {
		a.copies[0].end(api.ExitCrashed, 0)
	}
	for i, a := range w.pick(convergeFew, taken, well) {
		for range 1 + i%2 {
			w.run(w.room(), a, 0, a.row.Version, convergeDelay)
		}
	}
	for range convergeFew {
		rows = append(rows, w.newApp(3).row)
	}
	w.api.Set(rows...)
}

// convergeFaults has the API fail in one way after the other, and then be gone for
// twice expected_state_lost. Meanwhile nodes die: what they ran is started elsewhere,
// by the last rows that could be trusted, and nothing is stopped.
func convergeFaults(w *convergeWorld, _ *convergeProcess) {
	rows := w.grown(convergeFew)
	began, first := time.Now(), bulktest.Status
	for _, fault := range []bulktest.Fault{first, bulktest.Cut, bulktest.Garbage, bulktest.Truncated, bulktest.Foreign, bulktest.Held, bulktest.Gone} {
		w.api.Break(bulktest.Trouble{Fault: fault})
		if fault == first {
			w.api.Set(rows...)
		}
		w.await("a request that meets "+fault.String(), func() error {
			if w.suffered(fault) == 0 {
				return errors.New("none comes")
			}
			return nil
		})
	}
	w.await("the end of trust", func() error {
		s, err := w.status()
		if err == nil && s.Complete {
			err = errors.New("the harmonizer trusts its rows")
		}
		return err
	})
	before := w.books()
	w.kill(w.some(5))
	w.await("starts of what the dead nodes ran", func() error {
		if w.books().starts == before.starts {
			return errors.New("none comes")
		}
		return nil
	})
	w.passes(2*convergeRowsLost - time.Since(began))
	if now := w.books(); now.stops != before.stops {
		w.Errorf("without trusted rows: %d stops", now.stops-before.stops)
	}
	w.mended()
}

// grown gives apps one instance more, and returns their rows.
func (w *convergeWorld) grown(n int) (rows []bulktest.Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.pick(n, map[*convergeApp]bool{}, (*convergeApp).started) {
		rows = append(rows, w.setRow(a, func(r *bulktest.Row) { r.Instances++ }))
	}
	return rows
}

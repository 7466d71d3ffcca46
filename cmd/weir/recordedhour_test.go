package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
)

// twoSizes is a pool of machines of two sizes, and an app whose signal counts its instances.
const twoSizes = `resource_groups:
  - local: {name: small, min: 1, max: 6, machine: {cpus: 1, mem: 512, disk: 100}}
  - local: {name: large, min: 1, max: 6, machine: {cpus: 2, mem: 1024, disk: 100}}
scaling_limits: {min_capacity: 2, max_capacity: 12, max_weight_to_add: 6, max_weight_to_remove: 6, max_tasks_to_kill: inf}
autoscaling: {tick: 1s, setpoint: 0.8}
autoscale_signals:
  - {app: web, namespace: sim, name: instance_count, version: v1.0.0, period: 1s, required_metrics: [{name: cpus_expected, type: instance_counts, range: 1m}]}
`

// A real pool is recorded under changing load while machines are lost, its signal is killed, and operators pause it and add an offset. The
// replay decides its ticks again, and names the cause of each tick that differs. RECORD=1h records an hour, and KEEP=hour.jsonl keeps its
// records.
func TestRecordedHour(t *testing.T) {
	t.Parallel()
	length, least := time.Duration(0), 95.0 // percent: a tick may be more than one of a short recording
	if text := os.Getenv("RECORD"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		least = 99
	}
	file := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(file, []byte(twoSizes), 0o600); err != nil {
		t.Fatal(err)
	}
	u := startUp(t, t.TempDir(), "--pool-file", file)
	u.weir(t, "release", "publish", "sim/instance_count@v1.0.0", filepath.Join(os.Getenv("WEIR_SIGNALS_DIR"), "instance_count"))
	u.runningSignal(t, "web")
	began := time.Now()
	tick := func(what string, want func(r api.TickRecord) bool) {
		t.Helper()
		u.pool(t, what, func(s api.PoolStatus) error {
			if !want(*s.LastTick) {
				return errors.New("the last tick is another one")
			}
			return nil
		})
	}
	load := func(n int) {
		t.Helper()
		u.weir(t, "app", "set", "web", "--instances", fmt.Sprint(n), "--cpus", "0.4", "--mem", "16", "--command", "sleep 10000")
		u.waitRunning(t, "web", n)
	}
	for round := 0; round == 0 || time.Since(began) < length; round++ {
		load(3)
		u.weir(t, "offset", "2", "--for", "1h", "--why", "the test")
		tick("the offset", func(r api.TickRecord) bool { return r.Case != nil && r.Case.Input.Offset == 2 })
		load(12)
		s, err := runJSON[api.HarmonizerStatus](u, "app", "status", "web")
		if err != nil {
			t.Fatal(err)
		}
		victim := s.App.Indices[0].Instances[0].Node
		if err := syscall.Kill(agentPID(t, victim), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "web elsewhere", func() error { return runsElsewhere(u, victim, 12) })
		u.weir(t, "offset", "--clear")
		u.weir(t, "pause", "--for", "1h", "--why", "the test")
		tick("a paused tick", func(r api.TickRecord) bool { return r.Paused != nil })
		u.weir(t, "resume")
		tick("a tick with a decision", func(r api.TickRecord) bool { return r.Paused == nil && r.Case != nil })
		load(6)
		if err := syscall.Kill(u.runningSignal(t, "web").PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		tick("an answer after the death of the signal", func(r api.TickRecord) bool { return answeredIn(r) == nil && r.At.After(at) })
	}
	since := (time.Since(began) + time.Minute).Round(time.Second).String()
	records := u.weir(t, "explain", "--since", since, "--output", "json")
	if kept := os.Getenv("KEEP"); kept != "" {
		if err := os.WriteFile(kept, []byte(records), 0o600); err != nil {
			t.Error(err)
		}
	}
	checkRecords(t, records)
	lines := strings.Split(strings.TrimSpace(u.weir(t, "simulate", "--from", "default", "--since", since, "--at-least", "0", "--output", "json")), "\n")
	var sum api.Replayed
	if err := decodePrinted(lines[len(lines)-1], &sum); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[:len(lines)-1] {
		var one api.ReplayedTick
		if err := decodePrinted(line, &one); err != nil || one.Cause == "" {
			t.Errorf("a tick without a cause: %v: %s", err, line)
		}
		t.Logf("%s: target %v, replayed %v; %v, %v: %s", one.At.Format(time.TimeOnly), one.Target, one.Replayed, one.Groups, one.ReplayedGroups, one.Cause)
	}
	share := 100 * float64(sum.Same) / float64(max(1, sum.Ticks))
	t.Logf("%d of %d ticks are the same (%.2f %%), %d takeovers", sum.Same, sum.Ticks, share, sum.Takeovers)
	if sum.Ticks < 10 || share < least || sum.Same+len(lines)-1 != sum.Ticks {
		t.Errorf("%d of %d ticks are the same, and %d differ: want at least %v %%", sum.Same, sum.Ticks, len(lines)-1, least)
	}
}

// decodePrinted decodes a line that a command printed.
func decodePrinted[T any](line string, to *T) error {
	data, err := seconds.Back[T]([]byte(line))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// checkRecords checks that the recording has each kind of event.
func checkRecords(t *testing.T, lines string) {
	t.Helper()
	paused, offset, failed, lost, sizes := 0, 0, 0, 0, map[string]bool{}
	before := map[string]bool{}
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		r, err := history.ReadPrinted([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if r.Paused != nil {
			paused++
		}
		if r.Case == nil {
			continue
		}
		if r.Case.Input.Offset != 0 {
			offset++
		}
		if answeredIn(r) != nil {
			failed++
		}
		now := map[string]bool{}
		for _, n := range r.Case.Nodes {
			now[n.ID], sizes[n.Group] = true, true
		}
		for _, d := range r.Drains {
			now[d.Node] = true
		}
		for id := range before {
			if !now[id] {
				lost++
			}
		}
		before = map[string]bool{}
		for _, n := range r.Case.Nodes {
			before[n.ID] = n.Instance == api.InstanceRunning
		}
		for _, d := range r.Drains {
			delete(before, d.Node)
		}
	}
	if paused == 0 || offset == 0 || failed == 0 || lost == 0 || len(sizes) != 2 {
		t.Errorf("ticks with a pause: %d, with an offset: %d, with a failed signal: %d, lost machines: %d, groups %v: want some of each", paused, offset, failed, lost, sizes)
	}
}

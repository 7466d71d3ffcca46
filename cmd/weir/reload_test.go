package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// livePool is a pool file for a test that edits it: the version and more keys of
// the signal are to be filled in.
const livePool = `resource_groups:
  - local: {name: blue, min: 1, max: 4, machine: {cpus: 1, mem: 1024}}
scaling_limits: {min_capacity: 1, max_capacity: 4, max_weight_to_add: 4, max_weight_to_remove: 4}
autoscaling: {tick: 200ms}
autoscale_signals:
  - {app: web, namespace: shop, name: counts, version: %s, period: 200ms, %s
     required_metrics: [{name: cpus_expected, type: instance_counts, range: 1m}]}
`

// live is a "weir up" with a pool file that is edited while it runs.
type live struct {
	*upProcess
	file string
}

func startLive(t *testing.T) *live {
	t.Helper()
	l := &live{file: filepath.Join(t.TempDir(), "pool.yaml")}
	if err := os.WriteFile(l.file, []byte(strings.ReplaceAll(livePool, "namespace: shop, name: counts, version: %s, period: 200ms, %s", "period: 200ms,")), 0o600); err != nil {
		t.Fatal(err)
	}
	l.upProcess = startUp(t, t.TempDir(), "--pool-file", l.file)
	return l
}

// publish puts the program of the example signal into the bucket.
func (l *live) publish(t *testing.T, versions ...string) {
	t.Helper()
	for _, v := range versions {
		l.weir(t, "release", "publish", "shop/counts@"+v, filepath.Join(os.Getenv("WEIR_SIGNALS_DIR"), "instance_count"))
	}
}

// pin edits the pool file.
func (l *live) pin(t *testing.T, version, more string) {
	t.Helper()
	if err := daemon.WriteFile(l.file, fmt.Appendf(nil, livePool, version, more)); err != nil {
		t.Fatal(err)
	}
}

// runs waits until the app's signal is of that version, and nothing is beside it.
func (l *live) runs(t *testing.T, version string) api.Process {
	t.Helper()
	var now api.Process
	eventually(t, "version "+version+" of web", func() (err error) {
		now, err = l.signal("web")
		if err == nil && (now.Version != version || now.State != "running" || now.Candidate != nil) {
			err = fmt.Errorf("%+v", now)
		}
		return err
	})
	return now
}

// ticks returns all records of the ledger.
func (l *live) ticks(t *testing.T) (records []api.TickRecord) {
	t.Helper()
	b := joinAs(t, l.data, roles.User{Role: roles.Viewer})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ledger, err := state.OpenLedger(ctx, b.JetStream(), "local", "default")
	if err != nil {
		t.Fatal(err)
	}
	err = ledger.Since(ctx, time.Time{}.AddDate(2000, 0, 0), func(data []byte) error {
		var r api.TickRecord
		err := json.Unmarshal(data, &r)
		records = append(records, r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// TestSwapLosesNoTick pins one version after another, and checks whether each tick
// had an answer of one of them.
func TestSwapLosesNoTick(t *testing.T) {
	t.Parallel()
	l := startLive(t)
	l.publish(t, "v1", "v2", "v3")
	l.pin(t, "v1", "")
	autoscalerOf := func() int {
		s, err := runJSON[api.PoolStatus](l.upProcess, "status")
		if err != nil {
			t.Fatal(err)
		}
		return s.Processes.Autoscaler.PID
	}
	first := l.runs(t, "v1")
	before := autoscalerOf()
	eventually(t, "an answer of v1", func() error {
		_, err := l.answered("v1")
		return err
	})
	for _, version := range []string{"v2", "v3", "v1", "v2"} {
		l.pin(t, version, "")
		l.runs(t, version)
		eventually(t, "an answer of "+version, func() error {
			_, err := l.answered(version)
			return err
		})
	}
	if after := autoscalerOf(); after != before {
		t.Errorf("the autoscaler's process is %d, was %d: a swap restarts nothing else", after, before)
	}
	if last := l.runs(t, "v2"); last.PID == first.PID {
		t.Error("v2 runs in the process of v1")
	}
	var all []api.Opinion
	for _, r := range l.ticks(t) {
		for _, a := range appsOf(r) {
			all = append(all, a.Opinion)
		}
	}
	all = all[slices.IndexFunc(all, func(o api.Opinion) bool { return answers(o) && o.Version == "v1" }):]
	seen := map[string]bool{}
	for i, o := range all {
		if seen[o.Version] = true; !answers(o) && !slowAnswer(all, i) {
			t.Errorf("tick %d from the first answer on has no answer of web: %s, %s", i, o.Verdict, o.Why)
		}
	}
	if !seen["v1"] || !seen["v2"] || !seen["v3"] {
		t.Errorf("versions that answered: %v", seen)
	}
}

// answers reports whether the opinion is a request of its signal.
func answers(o api.Opinion) bool { return o.Verdict == api.VerdictValue }

// slowAnswer reports whether an opinion is missing because a busy machine took longer than half a tick: no swap was near, so
// the same version answered before and after it.
func slowAnswer(all []api.Opinion, i int) bool {
	next := slices.IndexFunc(all[i:], answers)
	before := slices.DeleteFunc(slices.Clone(all[:i]), func(o api.Opinion) bool { return !answers(o) })
	return strings.HasPrefix(all[i].Why, "no answer within") && (next < 0 || all[i+next].Version == before[len(before)-1].Version)
}

// answered returns the last tick if the version answered in it.
func (l *live) answered(version string) (api.TickRecord, error) {
	r, err := runJSON[api.TickRecord](l.upProcess, "explain")
	if err != nil || len(appsOf(r)) == 0 {
		return r, errors.Join(err, errors.New("no app"))
	}
	if o := appsOf(r)[0].Opinion; o.Version != version || o.Verdict != api.VerdictValue {
		return r, fmt.Errorf("%s %s: %s", o.Version, o.Verdict, o.Why)
	}
	return r, nil
}

// nextTick waits for another tick than the last one.
func (l *live) nextTick() (api.TickRecord, error) {
	last, err := runJSON[api.TickRecord](l.upProcess, "explain")
	if err != nil {
		return last, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		r, err := runJSON[api.TickRecord](l.upProcess, "explain")
		if err != nil || !r.At.Equal(last.At) {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, errors.New("no tick comes")
		case <-pause.C:
		}
	}
}

// TestReloadRefuses shows that invalid files are rejected, and running processes continue.
func TestReloadRefuses(t *testing.T) {
	t.Parallel()
	l := startLive(t)
	l.publish(t, "v1")
	l.pin(t, "v1", "")
	before := l.runs(t, "v1")
	eventually(t, "an answer of v1", func() error {
		_, err := l.answered("v1")
		return err
	})

	if err := daemon.WriteFile(l.file, []byte("autoscale_signals: [{app: web, nam: counts}]\n")); err != nil {
		t.Fatal(err)
	}
	l.waitFor(t, "did you mean name?")
	// Parameters go with the version that they are meant for.
	l.pin(t, "v9", "parameters: {headroom: 5},")
	eventually(t, "a word on v9", func() error {
		now, err := l.signal("web")
		if err == nil && !strings.Contains(now.Why, "v1") {
			err = fmt.Errorf("%+v", now)
		}
		return err
	})
	for ticks, answers := 0, 0; answers < 5; ticks++ {
		if ticks == 100 {
			t.Fatalf("v1 answered at %d of %d ticks", answers, ticks)
		}
		r, err := l.nextTick()
		if err != nil {
			t.Fatal(err)
		}
		if len(appsOf(r)) == 0 {
			continue // the tick ended before it decided
		}
		o := appsOf(r)[0].Opinion
		if o.Version != "v1" {
			t.Fatalf("while v9 is not there: an answer of %s, want v1", o.Version)
		}
		if o.Verdict != api.VerdictValue {
			continue // a busy machine: it took longer than half a tick
		}
		if answers++; !strings.Contains(o.Explanation, "1 *") {
			t.Errorf("while v9 is not there: %s; want v1 to answer with its own parameters", o.Explanation)
		}
	}
	// The copy that bootstrap reads is damaged behind the back of "weir up".
	copied := filepath.Join(l.data, "config", "local", "default.yaml")
	if err := daemon.WriteFile(copied, []byte("scaling_limits: {min_capacity: 9}\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the refusal in weir status", func() error {
		if text := l.weir(t, "status"); !strings.Contains(text, "configuration files rejected, running processes unchanged") {
			return errors.New(text)
		}
		return nil
	})
	l.pin(t, "v1", "parameters: {headroom: 3},")
	after := l.runs(t, "v1")
	if after.PID != before.PID || after.Restarts != 0 {
		t.Errorf("process of web is %d after %d restarts, was %d: parameters need no new process", after.PID, after.Restarts, before.PID)
	}
	eventually(t, "an answer with the new headroom", func() error {
		r, err := l.answered("v1")
		if err == nil && !strings.Contains(appsOf(r)[0].Opinion.Explanation, "3 *") {
			err = errors.New(appsOf(r)[0].Opinion.Explanation)
		}
		return err
	})
}

// appsOf returns the apps of a tick; nil if the tick ended before its decision.
func appsOf(r api.TickRecord) []api.AppInput {
	if r.Case == nil {
		return nil
	}
	return r.Case.Input.Apps
}

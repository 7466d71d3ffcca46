package pooltest

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// RepairerHarness is a group under test that is a [pools.Repairer]. During a test only the test repairs
// or replaces instances.
type RepairerHarness struct {
	Harness
	// Stop stops an instance, which continues to exist.
	Stop func(t *testing.T, id string)
	// Boot returns the boot id of an instance, or "" while the instance does not run. nil if boot
	// ids are unknown.
	Boot func(t *testing.T, id string) string
	// Break lets repairs in place of an instance fail while on. nil if that is impossible.
	Break func(t *testing.T, id string, on bool)
}

// RunRepairer runs the suite of [pools.Repairer]. Each test calls newGroup once.
func RunRepairer(t *testing.T, in Time, newGroup func(*testing.T, Setup) RepairerHarness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *repairer)
	}{
		{"each supported kind is known and occurs once", testRepairKinds},
		{"a repair of each kind completes", testRepairEachKind},
		{"a repeated attempt begins no second repair", testRepairOnce},
		{"another attempt begins another repair", testRepairAgain},
		{"a failed repair is reported as failed", testRepairFails},
		{"an ended instance cannot be repaired", testRepairEndedInstance},
		{"an unknown instance cannot be repaired", testRepairUnknownInstance},
		{"an ended context begins no repair", testRepairContext},
		{"a denied repair is refused", func(t *testing.T, m *repairer) { m.refused(t, m.Deny, pools.ErrRefused) }},
		{"a throttled repair is not begun", func(t *testing.T, m *repairer) { m.refused(t, m.Throttle, pools.ErrThrottled) }},
	} {
		in.run(t, test.name, func(t *testing.T) {
			setup := Setup{ID: "conformance", Min: 1, Max: 12, Target: 3}
			of := newGroup(t, setup)
			m := &repairer{of: of}
			m.group, m.can, m.victim = prepare[pools.Repairer](t, of.Harness, setup, of.Group)
			test.run(t, m)
		})
	}
}

// prepare waits until the group runs. It returns the group, the interface C of the value under
// test, and the instance for the test.
func prepare[C any](t *testing.T, h Harness, setup Setup, value any) (g *group, can C, victim string) {
	t.Helper()
	can, ok := value.(C)
	if !ok {
		t.Fatalf("%T does not implement %v", value, reflect.TypeFor[C]())
	}
	g = &group{Harness: h, setup: setup}
	return g, can, g.running(t, setup.Target).Instances[1].ID
}

// repairer is the harness with the helpers of the tests.
type repairer struct {
	*group
	of     RepairerHarness
	can    pools.Repairer
	victim string
}

func (m *repairer) repairing(kind api.RepairKind, attempt string) pools.InPlaceRepair {
	return pools.InPlaceRepair{Instance: m.victim, Kind: kind, Attempt: attempt}
}

// any returns the first supported kind, after it has prepared the instance.
func (m *repairer) any(t *testing.T) api.RepairKind {
	t.Helper()
	kind := m.can.RepairKinds()[0]
	m.ready(t, kind)
	return kind
}

// ready stops the instance if the kind is a start.
func (m *repairer) ready(t *testing.T, kind api.RepairKind) {
	t.Helper()
	if kind == api.RepairStart {
		m.of.Stop(t, m.victim)
		m.rest(t)
	}
}

// end repeats the repair until it is done or has failed.
func (m *repairer) end(t *testing.T, what pools.InPlaceRepair) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(m.WaitLimit, time.Minute))
	defer cancel()
	for {
		done, err := m.can.RepairInPlace(t.Context(), what)
		if done && err != nil {
			t.Fatalf("repair %+v = true, %v", what, err)
		}
		if done || errors.Is(err, pools.ErrRepairFailed) {
			return err
		}
		if err != nil {
			t.Fatalf("repair %+v: %v", what, err)
		}
		if ctx.Err() != nil {
			t.Fatalf("timed out: %s of %s is not done", what.Kind, what.Instance)
		}
		m.Pass(ctx)
	}
}

// boot waits until the instance runs, and returns its boot id, or "" if boot ids are unknown.
func (m *repairer) boot(t *testing.T) string {
	t.Helper()
	if m.of.Boot == nil {
		return ""
	}
	var id string
	m.await(t, m.victim+" has booted", func(pools.GroupSnapshot) bool {
		id = m.of.Boot(t, m.victim)
		return id != ""
	})
	return id
}

// restarted reports whether two boot ids show a restart.
func (m *repairer) restarted(before, after string) bool { return m.of.Boot == nil || before != after }

// untouched checks that the group still has the same instances and the same target.
func (m *repairer) untouched(t *testing.T, before pools.GroupSnapshot) {
	t.Helper()
	m.rest(t)
	m.unchanged(t, before)
}

func testRepairKinds(t *testing.T, m *repairer) {
	kinds := m.can.RepairKinds()
	known := []api.RepairKind{api.RepairStart, api.RepairReboot, api.RepairReset, api.RepairRebuild}
	for i, kind := range kinds {
		if !slices.Contains(known, kind) || slices.Contains(kinds[:i], kind) {
			t.Errorf("the kinds are %q, want some of %q, each once", kinds, known)
		}
	}
	if len(kinds) == 0 {
		t.Error("the group supports no kind")
	}
	for _, kind := range known {
		if slices.Contains(kinds, kind) {
			continue
		}
		if done, err := m.can.RepairInPlace(t.Context(), m.repairing(kind, "attempt-"+string(kind))); done || err == nil {
			t.Errorf("repair by %s = %t, %v, want an error: it is not supported", kind, done, err)
		}
	}
}

// testRepairEachKind checks that the instance keeps its id and restarts once, and that the group keeps
// its size.
func testRepairEachKind(t *testing.T, m *repairer) {
	for _, kind := range m.can.RepairKinds() {
		before, boot := m.snapshot(t), m.boot(t)
		m.ready(t, kind)
		what := m.repairing(kind, "attempt-"+string(kind))
		if err := m.end(t, what); err != nil {
			t.Fatalf("repair by %s: %v", kind, err)
		}
		after := m.boot(t)
		if !m.restarted(boot, after) {
			t.Errorf("%s: the boot id is %q before and after", kind, boot)
		}
		m.untouched(t, before)
		if done, err := m.can.RepairInPlace(t.Context(), what); !done || err != nil {
			t.Errorf("after the end of %s, the repair = %t, %v, want true", kind, done, err)
		}
		m.untouched(t, before)
		if again := m.boot(t); again != after {
			t.Errorf("a repeated %s restarted it again: boot %q, then %q", kind, after, again)
		}
	}
}

func testRepairOnce(t *testing.T, m *repairer) {
	what := m.repairing(m.any(t), "attempt-1")
	before := m.snapshot(t)
	var calls []func() error
	for range 6 {
		calls = append(calls, func() error { _, err := m.can.RepairInPlace(t.Context(), what); return err })
	}
	m.parallel(t, calls)
	if err := m.end(t, what); err != nil {
		t.Fatalf("repair: %v", err)
	}
	boot := m.boot(t)
	for range 10 {
		if done, err := m.can.RepairInPlace(t.Context(), what); !done || err != nil {
			t.Fatalf("repair = %t, %v, want true", done, err)
		}
		m.Pass(t.Context())
	}
	if again := m.boot(t); again != boot {
		t.Errorf("it restarted again: boot %q, then %q", boot, again)
	}
	m.untouched(t, before)
}

func testRepairAgain(t *testing.T, m *repairer) {
	before := m.snapshot(t)
	kind := m.any(t)
	if err := m.end(t, m.repairing(kind, "attempt-1")); err != nil {
		t.Fatalf("repair: %v", err)
	}
	boot := m.boot(t)
	m.ready(t, kind)
	if err := m.end(t, m.repairing(kind, "attempt-2")); err != nil {
		t.Fatalf("repair under another attempt: %v", err)
	}
	if again := m.boot(t); !m.restarted(boot, again) {
		t.Errorf("under another attempt it did not restart: boot %q", boot)
	}
	m.untouched(t, before)
}

func testRepairFails(t *testing.T, m *repairer) {
	if m.of.Break == nil {
		return
	}
	kind := m.any(t)
	m.of.Break(t, m.victim, true)
	what := m.repairing(kind, "attempt-1")
	if err := m.end(t, what); !errors.Is(err, pools.ErrRepairFailed) {
		t.Fatalf("repair = %v, want %v", err, pools.ErrRepairFailed)
	}
	m.of.Break(t, m.victim, false)
	m.rest(t)
	if done, err := m.can.RepairInPlace(t.Context(), what); done || !errors.Is(err, pools.ErrRepairFailed) {
		t.Errorf("under the same attempt, the repair = %t, %v, want the same failure", done, err)
	}
}

func testRepairEndedInstance(t *testing.T, m *repairer) {
	kind := m.can.RepairKinds()[0]
	m.terminate(t, m.victim)
	m.gone(t, m.victim)
	before := m.snapshot(t)
	done, err := m.can.RepairInPlace(t.Context(), m.repairing(kind, "attempt-1"))
	if done || !errors.Is(err, pools.ErrRepairFailed) && !errors.Is(err, pools.ErrNotOwned) {
		t.Errorf("repair of an ended instance = %t, %v, want %v", done, err, pools.ErrRepairFailed)
	}
	m.untouched(t, before)
}

func testRepairUnknownInstance(t *testing.T, m *repairer) {
	before := m.snapshot(t)
	m.victim = "not-one-of-ours"
	if done, err := m.can.RepairInPlace(t.Context(), m.repairing(m.can.RepairKinds()[0], "attempt-1")); done || err == nil {
		t.Errorf("repair = %t, %v, want an error", done, err)
	}
	m.untouched(t, before)
}

func testRepairContext(t *testing.T, m *repairer) {
	before, boot := m.snapshot(t), m.boot(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, kind := range m.can.RepairKinds() {
		if done, err := m.can.RepairInPlace(ctx, m.repairing(kind, "attempt-"+string(kind))); done || !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that has ended = %t, %v, want %v", kind, done, err, context.Canceled)
		}
	}
	m.untouched(t, before)
	if again := m.boot(t); again != boot {
		t.Errorf("it restarted: boot %q, then %q", boot, again)
	}
}

// refused checks that while fault is on no repair begins and the attempt does not fail, and that it
// completes afterwards.
func (m *repairer) refused(t *testing.T, fault func(*testing.T, bool), want error) {
	t.Helper()
	if fault == nil {
		return
	}
	what := m.repairing(m.any(t), "attempt-1")
	fault(t, true)
	if done, err := m.can.RepairInPlace(t.Context(), what); done || !errors.Is(err, want) || errors.Is(err, pools.ErrRepairFailed) {
		t.Errorf("repair = %t, %v, want %v", done, err, want)
	}
	fault(t, false)
	if err := m.end(t, what); err != nil {
		t.Errorf("after the fault, repair: %v", err)
	}
}

package pooltest

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// MendHarness is a group under test that is a [pools.Mender]. During a test only the test repairs
// or replaces instances.
type MendHarness struct {
	Harness
	// Stop stops an instance, which continues to exist.
	Stop func(t *testing.T, id string)
	// Boot returns the boot id of an instance, or "" while the instance does not run. nil if boot
	// ids are unknown.
	Boot func(t *testing.T, id string) string
	// Break lets repairs in place of an instance fail while on. nil if that is impossible.
	Break func(t *testing.T, id string, on bool)
}

// RunMender runs the suite of [pools.Mender]. Each test calls newGroup once.
func RunMender(t *testing.T, in Time, newGroup func(*testing.T, Setup) MendHarness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *mender)
	}{
		{"each supported kind is known and occurs once", testMends},
		{"a repair of each kind completes", testMendKinds},
		{"a repeated attempt begins no second repair", testMendOnce},
		{"another attempt begins another repair", testMendAnew},
		{"a failed repair is reported as failed", testMendInVain},
		{"an ended instance cannot be repaired", testMendEnded},
		{"an unknown instance cannot be repaired", testMendUnknown},
		{"an ended context begins no repair", testMendContext},
		{"a denied repair is refused", func(t *testing.T, m *mender) { m.refused(t, m.Deny, pools.ErrRefused) }},
		{"a throttled repair is not begun", func(t *testing.T, m *mender) { m.refused(t, m.Throttle, pools.ErrThrottled) }},
	} {
		in.run(t, test.name, func(t *testing.T) {
			setup := Setup{ID: "conformance", Min: 1, Max: 12, Target: 3}
			of := newGroup(t, setup)
			m := &mender{of: of}
			m.group, m.can, m.victim = prepare[pools.Mender](t, of.Harness, setup, of.Group)
			test.run(t, m)
		})
	}
}

// prepare waits until the group runs. It returns the group, the interface C of the value under
// test, and the instance for the test.
func prepare[C any](t *testing.T, h Harness, setup Setup, who any) (g *group, can C, victim string) {
	t.Helper()
	can, ok := who.(C)
	if !ok {
		t.Fatalf("%T does not implement %v", who, reflect.TypeFor[C]())
	}
	g = &group{Harness: h, setup: setup}
	return g, can, g.running(t, setup.Target).Instances[1].ID
}

// mender is the harness with the helpers of the tests.
type mender struct {
	*group
	of     MendHarness
	can    pools.Mender
	victim string
}

func (m *mender) mending(kind pools.MendKind, attempt string) pools.Mending {
	return pools.Mending{Instance: m.victim, Kind: kind, Attempt: attempt}
}

// any returns the first supported kind, after it has prepared the instance.
func (m *mender) any(t *testing.T) pools.MendKind {
	t.Helper()
	kind := m.can.Mends()[0]
	m.ready(t, kind)
	return kind
}

// ready stops the instance if the kind is a start.
func (m *mender) ready(t *testing.T, kind pools.MendKind) {
	t.Helper()
	if kind == pools.MendStart {
		m.of.Stop(t, m.victim)
		m.rest(t)
	}
}

// end repeats the repair until it is done or has failed.
func (m *mender) end(t *testing.T, what pools.Mending) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(m.Patience, 10*time.Second))
	defer cancel()
	for {
		done, err := m.can.Mend(t.Context(), what)
		if done && err != nil {
			t.Fatalf("repair %+v = true, %v", what, err)
		}
		if done || errors.Is(err, pools.ErrMendFailed) {
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
func (m *mender) boot(t *testing.T) string {
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
func (m *mender) restarted(before, after string) bool { return m.of.Boot == nil || before != after }

// untouched checks that the group still has the same instances and the same target.
func (m *mender) untouched(t *testing.T, before pools.GroupSnapshot) {
	t.Helper()
	m.rest(t)
	m.unchanged(t, before)
}

func testMends(t *testing.T, m *mender) {
	kinds := m.can.Mends()
	known := []pools.MendKind{pools.MendStart, pools.MendReboot, pools.MendReset, pools.MendRebuild}
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
		if done, err := m.can.Mend(t.Context(), m.mending(kind, "attempt-"+string(kind))); done || err == nil {
			t.Errorf("repair by %s = %t, %v, want an error: it is not supported", kind, done, err)
		}
	}
}

// testMendKinds checks that the instance keeps its id and restarts once, and that the group keeps
// its size.
func testMendKinds(t *testing.T, m *mender) {
	for _, kind := range m.can.Mends() {
		before, boot := m.snapshot(t), m.boot(t)
		m.ready(t, kind)
		what := m.mending(kind, "attempt-"+string(kind))
		if err := m.end(t, what); err != nil {
			t.Fatalf("repair by %s: %v", kind, err)
		}
		after := m.boot(t)
		if !m.restarted(boot, after) {
			t.Errorf("%s: the boot id is %q before and after", kind, boot)
		}
		m.untouched(t, before)
		if done, err := m.can.Mend(t.Context(), what); !done || err != nil {
			t.Errorf("after the end of %s, the repair = %t, %v, want true", kind, done, err)
		}
		m.untouched(t, before)
		if again := m.boot(t); again != after {
			t.Errorf("a repeated %s restarted it again: boot %q, then %q", kind, after, again)
		}
	}
}

func testMendOnce(t *testing.T, m *mender) {
	what := m.mending(m.any(t), "attempt-1")
	before := m.snapshot(t)
	var calls []func() error
	for range 6 {
		calls = append(calls, func() error { _, err := m.can.Mend(t.Context(), what); return err })
	}
	m.parallel(t, calls)
	if err := m.end(t, what); err != nil {
		t.Fatalf("repair: %v", err)
	}
	boot := m.boot(t)
	for range 10 {
		if done, err := m.can.Mend(t.Context(), what); !done || err != nil {
			t.Fatalf("repair = %t, %v, want true", done, err)
		}
		m.Pass(t.Context())
	}
	if again := m.boot(t); again != boot {
		t.Errorf("it restarted again: boot %q, then %q", boot, again)
	}
	m.untouched(t, before)
}

func testMendAnew(t *testing.T, m *mender) {
	before := m.snapshot(t)
	kind := m.any(t)
	if err := m.end(t, m.mending(kind, "attempt-1")); err != nil {
		t.Fatalf("repair: %v", err)
	}
	boot := m.boot(t)
	m.ready(t, kind)
	if err := m.end(t, m.mending(kind, "attempt-2")); err != nil {
		t.Fatalf("repair under another attempt: %v", err)
	}
	if again := m.boot(t); !m.restarted(boot, again) {
		t.Errorf("under another attempt it did not restart: boot %q", boot)
	}
	m.untouched(t, before)
}

func testMendInVain(t *testing.T, m *mender) {
	if m.of.Break == nil {
		return
	}
	kind := m.any(t)
	m.of.Break(t, m.victim, true)
	what := m.mending(kind, "attempt-1")
	if err := m.end(t, what); !errors.Is(err, pools.ErrMendFailed) {
		t.Fatalf("repair = %v, want %v", err, pools.ErrMendFailed)
	}
	m.of.Break(t, m.victim, false)
	m.rest(t)
	if done, err := m.can.Mend(t.Context(), what); done || !errors.Is(err, pools.ErrMendFailed) {
		t.Errorf("under the same attempt, the repair = %t, %v, want the same failure", done, err)
	}
}

func testMendEnded(t *testing.T, m *mender) {
	kind := m.can.Mends()[0]
	m.terminate(t, m.victim)
	m.gone(t, m.victim)
	before := m.snapshot(t)
	done, err := m.can.Mend(t.Context(), m.mending(kind, "attempt-1"))
	if done || !errors.Is(err, pools.ErrMendFailed) && !errors.Is(err, pools.ErrNotOwned) {
		t.Errorf("repair of an ended instance = %t, %v, want %v", done, err, pools.ErrMendFailed)
	}
	m.untouched(t, before)
}

func testMendUnknown(t *testing.T, m *mender) {
	before := m.snapshot(t)
	m.victim = "not-one-of-ours"
	if done, err := m.can.Mend(t.Context(), m.mending(m.can.Mends()[0], "attempt-1")); done || err == nil {
		t.Errorf("repair = %t, %v, want an error", done, err)
	}
	m.untouched(t, before)
}

func testMendContext(t *testing.T, m *mender) {
	before, boot := m.snapshot(t), m.boot(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, kind := range m.can.Mends() {
		if done, err := m.can.Mend(ctx, m.mending(kind, "attempt-"+string(kind))); done || !errors.Is(err, context.Canceled) {
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
func (m *mender) refused(t *testing.T, fault func(*testing.T, bool), want error) {
	t.Helper()
	if fault == nil {
		return
	}
	what := m.mending(m.any(t), "attempt-1")
	fault(t, true)
	if done, err := m.can.Mend(t.Context(), what); done || !errors.Is(err, want) || errors.Is(err, pools.ErrMendFailed) {
		t.Errorf("repair = %t, %v, want %v", done, err, want)
	}
	fault(t, false)
	if err := m.end(t, what); err != nil {
		t.Errorf("after the fault, repair: %v", err)
	}
}

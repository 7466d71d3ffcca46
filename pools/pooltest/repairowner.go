package pooltest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// RepairOwnerHarness is the only group of a provider under test that is a [pools.RepairOwner]. At first the
// provider owns the repair.
type RepairOwnerHarness struct {
	Harness
	Provider pools.Provider
	// Stop stops an instance, which continues to exist. nil if that is impossible.
	Stop func(t *testing.T, id string)
	// ResumeRepair lets another party return the repairs to the provider. nil if that is impossible.
	ResumeRepair func(t *testing.T)
}

// RunRepairOwner runs the suite of [pools.RepairOwner]. Each test calls newProvider once.
func RunRepairOwner(t *testing.T, in Time, newProvider func(*testing.T, Setup) RepairOwnerHarness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *repairOwner)
	}{
		{"it owns the repair until it releases it", testReleaseRepair},
		{"a marked instance is replaced if it owns the repair", testMarked},
		{"an instance that is marked twice is replaced once", testMarkedTwice},
		{"an unknown instance cannot be marked", testMarkUnknown},
		{"a stopped instance stays after the release", testStoppedStays},
		{"an ended context changes nothing", testOwnerContext},
		{"a denied call is refused", testOwnerDenied},
	} {
		in.run(t, test.name, func(t *testing.T) {
			setup := Setup{ID: "conformance", Min: 1, Max: 12, Target: 4}
			of := newProvider(t, setup)
			h := &repairOwner{of: of}
			h.group, h.can, h.victim = prepare[pools.RepairOwner](t, of.Harness, setup, of.Provider)
			test.run(t, h)
		})
	}
}

type repairOwner struct {
	*group
	of     RepairOwnerHarness
	can    pools.RepairOwner
	victim string
}

// ownsRepair waits until the provider reports that it owns the repair, or that it does not.
func (h *repairOwner) ownsRepair(t *testing.T, want bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(h.WaitLimit, time.Minute))
	defer cancel()
	for {
		if _, err := h.of.Provider.Groups(t.Context()); err != nil {
			t.Fatalf("Groups: %v", err)
		}
		why, err := h.can.OwnsRepair(t.Context())
		if err != nil {
			t.Fatalf("read the repair owner: %v", err)
		}
		if (why != "") == want {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("why = %q, want a reason: %t", why, want)
		}
		h.Pass(ctx)
	}
}

func (h *repairOwner) leave(t *testing.T) {
	t.Helper()
	if err := h.can.ReleaseRepair(t.Context()); err != nil {
		t.Fatalf("release the repair: %v", err)
	}
	h.ownsRepair(t, false)
}

func (h *repairOwner) mark(t *testing.T) {
	t.Helper()
	if err := h.can.MarkUnhealthy(t.Context(), h.victim, "it is sick"); err != nil {
		t.Fatalf("MarkUnhealthy: %v", err)
	}
}

func testReleaseRepair(t *testing.T, h *repairOwner) {
	before := h.snapshot(t)
	h.ownsRepair(t, true)
	h.leave(t)
	h.leave(t)
	for range 2 {
		if err := h.can.ResumeRepair(t.Context()); err != nil {
			t.Fatalf("resume the repair: %v", err)
		}
	}
	h.ownsRepair(t, true)
	h.leave(t)
	if h.of.ResumeRepair != nil {
		h.of.ResumeRepair(t)
		h.ownsRepair(t, true)
		h.leave(t)
	}
	h.rest(t)
	h.unchanged(t, before)
}

func testMarked(t *testing.T, h *repairOwner) {
	before := h.snapshot(t)
	h.mark(t)
	h.gone(t, h.victim)
	after := h.running(t, before.Target)
	for _, id := range living(before) {
		if id != h.victim && !slices.Contains(living(after), id) {
			t.Errorf("%s is gone, too", id)
		}
	}
}

func testMarkedTwice(t *testing.T, h *repairOwner) {
	before := h.snapshot(t)
	h.mark(t)
	h.mark(t)
	h.gone(t, h.victim)
	h.running(t, before.Target)
	h.rest(t)
	after := living(h.snapshot(t))
	left := slices.DeleteFunc(living(before), func(id string) bool { return !slices.Contains(after, id) })
	if len(left) != len(living(before))-1 {
		t.Errorf("of %v only %v are left, want one to be replaced", living(before), left)
	}
}

func testMarkUnknown(t *testing.T, h *repairOwner) {
	before := h.snapshot(t)
	if err := h.can.MarkUnhealthy(t.Context(), "not-one-of-ours", "it is sick"); err == nil {
		t.Error("MarkUnhealthy = nil, want an error")
	}
	h.rest(t)
	h.unchanged(t, before)
}

func testStoppedStays(t *testing.T, h *repairOwner) {
	if h.of.Stop == nil {
		return
	}
	before := h.snapshot(t)
	h.leave(t)
	h.of.Stop(t, h.victim)
	h.rest(t)
	h.unchanged(t, before)
}

func testOwnerContext(t *testing.T, h *repairOwner) {
	before := h.snapshot(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.can.OwnsRepair(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("read the repair owner = %v, want %v", err, context.Canceled)
	}
	if err := h.can.ReleaseRepair(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("release the repair = %v, want %v", err, context.Canceled)
	}
	if err := h.can.ResumeRepair(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("resume the repair = %v, want %v", err, context.Canceled)
	}
	if err := h.can.MarkUnhealthy(ctx, h.victim, "it is sick"); !errors.Is(err, context.Canceled) {
		t.Errorf("MarkUnhealthy = %v, want %v", err, context.Canceled)
	}
	h.ownsRepair(t, true)
	h.rest(t)
	h.unchanged(t, before)
}

func testOwnerDenied(t *testing.T, h *repairOwner) {
	if h.Deny == nil {
		return
	}
	before := h.snapshot(t)
	h.Deny(t, true)
	if err := h.can.ReleaseRepair(t.Context()); !errors.Is(err, pools.ErrRefused) {
		t.Errorf("release the repair = %v, want %v", err, pools.ErrRefused)
	}
	if err := h.can.MarkUnhealthy(t.Context(), h.victim, "it is sick"); !errors.Is(err, pools.ErrRefused) {
		t.Errorf("MarkUnhealthy = %v, want %v", err, pools.ErrRefused)
	}
	h.Deny(t, false)
	h.ownsRepair(t, true)
	h.rest(t)
	h.unchanged(t, before)
}

package aws

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/pooltest"
)

// releasedGroup returns a group whose repairs belong to Weirkeeper, and one of its instances.
func releasedGroup(t *testing.T, spot bool) (repaired, string) {
	t.Helper()
	r := newRepaired(t, pooltest.Setup{ID: "web", Max: 9, Target: 3}, AutoScaling, spot, false)
	return r, r.server.Instances("web")[1].ID
}

// successor returns a new process without the state of this one.
func (r repaired) successor(t *testing.T) pools.Repairer {
	t.Helper()
	p := open(t, r.provider.cfg)
	g, _ := one(t, p)
	return g.(pools.Repairer)
}

// After a crash after each call, the next process continues.
func TestRepairSurvivesCrashes(t *testing.T) {
	for _, kind := range []api.RepairKind{api.RepairReboot, api.RepairReset, api.RepairRebuild} {
		t.Run(string(kind), func(t *testing.T) {
			r, id := releasedGroup(t, false)
			before, _ := instanceOf(r.server, id)
			m := pools.InPlaceRepair{Instance: id, Kind: kind, Attempt: id + ".1"}
			done := false
			for range 30 {
				var err error
				if done, err = r.successor(t).RepairInPlace(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				r.server.Advance(10 * time.Second)
			}
			if !done {
				t.Fatal("it is not through")
			}
			if after, _ := instanceOf(r.server, id); after.Boots != before.Boots+1 || after.State != "running" {
				t.Errorf("it booted %d times, and is %s; want once", after.Boots-before.Boots, after.State)
			}
		})
	}
}

// A call whose response is lost was carried out, and is not repeated.
func TestRepairResponseLost(t *testing.T) {
	for kind, action := range map[api.RepairKind]string{
		api.RepairReboot: "RebootInstances", api.RepairReset: "StopInstances", api.RepairRebuild: "CreateReplaceRootVolumeTask",
	} {
		t.Run(string(kind), func(t *testing.T) {
			r, id := releasedGroup(t, false)
			before, _ := instanceOf(r.server, id)
			m := pools.InPlaceRepair{Instance: id, Kind: kind, Attempt: id + ".1"}
			r.server.Drop(action, 1)
			for range 30 {
				done, err := r.group.(pools.Repairer).RepairInPlace(t.Context(), m)
				if errors.Is(err, pools.ErrRepairFailed) {
					t.Fatal(err)
				}
				if r.server.Advance(10 * time.Second); done {
					break
				}
			}
			pass(r.server)
			if after, _ := instanceOf(r.server, id); after.Boots != before.Boots+1 {
				t.Errorf("it booted %d times, want once", after.Boots-before.Boots)
			}
		})
	}
}

func TestRepairRejected(t *testing.T) {
	for _, tc := range []struct {
		name  string
		kind  api.RepairKind
		spot  bool
		given func(s *awsfake.Server, id string)
		want  error
		word  string
	}{
		{"a reset of one that its group would replace", api.RepairReset, false, func(s *awsfake.Server, _ string) { s.Suspend("web") },
			pools.ErrRefused, "ReplaceUnhealthy is not suspended"},
		{"a reset of a spot instance", api.RepairReset, true, nil, pools.ErrRepairFailed, "can't stop the Spot Instance"},
		{"a reboot of one that is stopped", api.RepairReboot, false, stopNow, pools.ErrRepairFailed, "is stopped"},
		{"a new root volume of one that is stopped", api.RepairRebuild, false, stopNow, pools.ErrRepairFailed, "is stopped"},
		{"one that ends", api.RepairReboot, false, (*awsfake.Server).Lose, pools.ErrRepairFailed, "has ended"},
		{"no capacity to start it", api.RepairStart, false, func(s *awsfake.Server, id string) {
			i, _ := instanceOf(s, id)
			stopNow(s, id)
			s.SetStock(i.Market, 0)
		},
			pools.ErrShort, "InsufficientInstanceCapacity"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, id := releasedGroup(t, tc.spot)
			if tc.given != nil {
				tc.given(r.server, id)
			}
			before, _ := instanceOf(r.server, id)
			done, err := r.group.(pools.Repairer).RepairInPlace(t.Context(), pools.InPlaceRepair{Instance: id, Kind: tc.kind, Attempt: "a"})
			if done || !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.word) || !strings.Contains(err.Error(), id) {
				t.Errorf("repair = %t, %v, want %v and %q", done, err, tc.want, tc.word)
			}
			if after, _ := instanceOf(r.server, id); after.State != before.State || after.Boots != before.Boots {
				t.Errorf("it was %+v, and is %+v", before, after)
			}
		})
	}
}

// stopNow stops an instance, and advances the time until it is stopped.
func stopNow(s *awsfake.Server, id string) {
	s.Stop(id)
	pass(s)
}

func TestFailedRebuild(t *testing.T) {
	for state, word := range map[string]string{"failed": "still attached", "failed-detached": "has no root volume"} {
		t.Run(state, func(t *testing.T) {
			r, id := releasedGroup(t, false)
			r.server.FailVolume(state)
			m := pools.InPlaceRepair{Instance: id, Kind: api.RepairRebuild, Attempt: "a", Image: "ami-2"}
			var err error
			for range 10 {
				if _, err = r.group.(pools.Repairer).RepairInPlace(t.Context(), m); err != nil {
					break
				}
				r.server.Advance(10 * time.Second)
			}
			if !errors.Is(err, pools.ErrRepairFailed) || !strings.Contains(err.Error(), word) {
				t.Errorf("repair = %v, want %v and %q", err, pools.ErrRepairFailed, word)
			}
			if n := count(r.server, "CreateReplaceRootVolumeTask"); n != 1 {
				t.Errorf("%d tasks, want 1", n)
			}
			m.Image, m.Attempt = "no image", "b"
			if _, err = r.group.(pools.Repairer).RepairInPlace(t.Context(), m); !errors.Is(err, pools.ErrRepairFailed) {
				t.Errorf("repair with an invalid image = %v, want %v", err, pools.ErrRepairFailed)
			}
		})
	}
}

// While the instance is down, the group marks it. The end of the repair removes the mark.
func TestRepairRemovesMark(t *testing.T) {
	r, id := releasedGroup(t, false)
	stopNow(r.server, id)
	if i, _ := instanceOf(r.server, id); !i.Unhealthy {
		t.Fatal("its group has not noticed that it is stopped")
	}
	for done := false; !done; r.server.Advance(10 * time.Second) {
		var err error
		if done, err = r.group.(pools.Repairer).RepairInPlace(t.Context(), pools.InPlaceRepair{Instance: id, Kind: api.RepairStart, Attempt: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	r.server.Suspend("web") // the group replaces unhealthy instances again
	pass(r.server)
	if i, ok := instanceOf(r.server, id); !ok || i.Unhealthy || i.State != "running" {
		t.Errorf("it is %+v, want it running, and left alone", i)
	}
}

func TestNotOurs(t *testing.T) {
	r, _ := releasedGroup(t, false)
	r.server.AddGroup(awsfake.ASG{Name: "other", Max: 9, Desired: 1, TargetGroups: []string{front}})
	other := r.server.Instances("other")[0].ID
	if done, err := r.group.(pools.Repairer).RepairInPlace(t.Context(), pools.InPlaceRepair{Instance: other, Kind: api.RepairReboot, Attempt: "a"}); done || !errors.Is(err, pools.ErrNotOwned) {
		t.Errorf("repair = %t, %v, want %v", done, err, pools.ErrNotOwned)
	}
	for _, way := range r.group.(pools.Isolator).Fences() {
		if ok, err := r.group.(pools.Isolator).Isolate(t.Context(), other, way); ok || !errors.Is(err, pools.ErrNotOwned) {
			t.Errorf("Isolate by %s = %t, %v, want %v", way, ok, err, pools.ErrNotOwned)
		}
	}
	if err := r.provider.MarkUnhealthy(t.Context(), other, "sick"); !errors.Is(err, pools.ErrNotOwned) {
		t.Errorf("MarkUnhealthy = %v, want %v", err, pools.ErrNotOwned)
	}
	for _, c := range r.server.Calls() {
		if c.Write {
			t.Errorf("%s was requested", c.Action)
		}
	}
}

func FuzzParseBegun(f *testing.F) {
	f.Add(begun{token: "t", launched: time.Unix(1e9, 0)}.String())
	f.Add(" 2024-01-02T00:00:00Z")
	f.Fuzz(func(t *testing.T, value string) {
		b, ok := parseBegun(value)
		if !ok {
			return
		}
		if again, ok := parseBegun(b.String()); !ok || again.token != b.token || !again.launched.Equal(b.launched) {
			t.Errorf("parseBegun(%q) = %+v, and of that %+v", value, b, again)
		}
	})
}

package provider

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

func selectors() (full, spot Selector) {
	full = Selector{
		Key: "full", About: "groups", Isolated: []judge.Level{judge.FenceNetwork},
		Can: judge.Abilities{
			Actions:    []api.RepairAction{api.ActionStart, api.ActionReboot, api.ActionWorkflow},
			Fencing:    []judge.Level{judge.FenceService, judge.FenceCompute},
			OwnsRepair: true,
		},
	}
	spot = Selector{
		Key: "spot", About: "spot groups",
		Can: judge.Abilities{Actions: []api.RepairAction{api.ActionWorkflow, api.ActionReboot}, Fencing: []judge.Level{judge.FenceService}},
	}
	return full, spot
}

// A pool has the abilities that all of its groups have.
func TestAbilitiesAreThoseInCommon(t *testing.T) {
	full, spot := selectors()
	for _, c := range []struct {
		name      string
		of        []Selector
		isolation bool
		want      judge.Abilities
	}{
		{"no groups", nil, true, judge.Abilities{}},
		{"one", []Selector{full}, false, full.Can},
		{"isolation", []Selector{full}, true, judge.Abilities{
			Actions: full.Can.Actions, Fencing: []judge.Level{judge.FenceService, judge.FenceCompute, judge.FenceNetwork}, OwnsRepair: true,
		}},
		{"both", []Selector{full, spot, full}, true, judge.Abilities{
			Actions: []api.RepairAction{api.ActionReboot, api.ActionWorkflow}, Fencing: []judge.Level{judge.FenceService},
		}},
	} {
		if diff := cmp.Diff(c.want, Abilities(c.of, c.isolation)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestDescribe(t *testing.T) {
	full, _ := selectors()
	if got, want := full.Describe(), "full: groups; repairs START, REBOOT; fences SERVICE, COMPUTE, NETWORK; replaces unfit machines by itself"; got != want {
		t.Errorf("Describe() = %q, want %q", got, want)
	}
	if got, want := (Selector{Key: "x", About: "groups"}).Describe(), "x: groups; repairs nothing; fences nothing"; got != want {
		t.Errorf("Describe() = %q, want %q", got, want)
	}
}

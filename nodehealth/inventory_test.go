package nodehealth

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// snapshotOf is a snapshot of one group.
func snapshotOf(instances ...pools.Instance) snapshot {
	return snapshot{groups: []pools.GroupSnapshot{{ID: "g", Instances: instances}}}
}

func TestListBoundsAndMasks(t *testing.T) {
	mail := newMailbox()
	v := newInventory(mail)
	terminating := pools.Instance{ID: "n2", State: api.InstanceTerminating}
	list := v.list(snapshotOf(pools.Instance{ID: "n1"}, pools.Instance{ID: "n1"}, pools.Instance{}, terminating), nil)
	if len(list.List) != 2 || list.List[1].State != judge.Leaving || mail.losses()["machines without a unique id"] != 2 {
		t.Errorf("list() = %+v, lost %v", list, mail.losses())
	}
	if list = v.list(snapshotOf(terminating), map[string]bool{"n2": true}); list.List[0].State != judge.Running {
		t.Errorf("a machine repaired in place is %q, want running", list.List[0].State)
	}
	if v.whole(snapshotOf()) || !v.whole(snapshotOf(terminating, pools.Instance{ID: "n3"})) {
		t.Error("whole() does not compare with the latest snapshot")
	}
	events := v.leftNodes([]drain.Event{{Node: "n2", To: api.DrainGone, Reason: api.DrainScaleIn}})
	if again, is := events[0].(judge.Nodes); !is || !again.Again || again.List[0].State != judge.Leaving {
		t.Errorf("left() = %+v", events)
	}
	for _, ev := range []drain.Event{{Node: "n9", To: api.DrainGone}, {Node: "n2", To: api.DrainGone, Reason: api.DrainRepair}, {Node: "n2", To: api.DrainTerminating}} {
		if events := v.leftNodes([]drain.Event{ev}); events != nil {
			t.Errorf("left(%+v) = %v, want nil", ev, events)
		}
	}
	if places := v.places(nil); len(places) != 0 {
		t.Errorf("places() = %v, want none that terminate", places)
	}
}

func TestReplacementIsTheFirstLaunchedSince(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	tests := []struct {
		name      string
		instances []pools.Instance
		named     string
		want      string
	}{
		{"none", nil, "", ""},
		{"the old one", []pools.Instance{{ID: "old", Launched: at(20)}}, "", ""},
		{"launched before", []pools.Instance{{ID: "a", Launched: at(9)}}, "", ""},
		{"terminating", []pools.Instance{{ID: "a", Launched: at(20), State: api.InstanceTerminating}}, "", ""},
		{"the first", []pools.Instance{{ID: "a", Launched: at(20)}, {ID: "b", Launched: at(10)}}, "", "b"},
		{"by name", []pools.Instance{{ID: "b", Launched: at(10)}, {ID: "a", Launched: at(10)}}, "", "a"},
		{"of another node", []pools.Instance{{ID: "a", Launched: at(10)}, {ID: "b", Launched: at(20)}}, "a", "b"},
	}
	for _, test := range tests {
		v := newInventory(newMailbox())
		v.named[test.named] = true
		v.list(snapshotOf(test.instances...), nil)
		if got := v.replacement("old", at(10)); got != test.want {
			t.Errorf("%s: replacement() = %q, want %q", test.name, got, test.want)
		}
	}
}

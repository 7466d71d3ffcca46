package aws

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
)

// marked returns the instances of a group; an operator marks one.
func (w *partsWorld) marked(group string) (id string, before []awsfake.Instance) {
	before = w.server.Instances("")
	id = w.server.Instances(group)[1].ID
	w.server.Tag(id, cordonTag, "true")
	return id, before
}

// said counts how often a part was unknown or gone in the ticks of run.
func (w *partsWorld) said(run func(tick func(n int))) map[string]int {
	times := map[string]int{}
	run(func(n int) {
		for range n {
			w.ticks(1)
			for _, p := range w.last.Parts {
				times[string(p.State)+" "+p.Subject()]++
			}
		}
	})
	return times
}

// kept checks that the instances of before are all that ever ran, that no node is cordoned, and no drain is left.
func (w *partsWorld) kept(before []awsfake.Instance) {
	w.Helper()
	if now := w.server.Instances(""); len(now) != len(before) || w.ended() > 0 {
		w.Errorf("%d instances, and %d ended: want the %d of before", len(now), w.ended(), len(before))
	}
	for id, on := range w.cordon {
		if on {
			w.Errorf("node %s is cordoned", id)
		}
	}
	if len(w.drains) > 0 || len(w.last.Problems) > 0 {
		w.Errorf("drains %v, problems %q: want none", w.drains, w.last.Problems)
	}
}

// A group gets another name, and keeps its instances. The old name is gone, once. No machine ends or is launched, and the mark of an
// operator still counts.
func TestRenamedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPartsWorld(t)
		w.ticks(3)
		kept, before := w.marked("a")
		said := w.said(func(tick func(int)) {
			tick(1)
			w.server.Rename("a", "renamed")
			tick(10)
		})
		if len(said) != 1 || said["gone group a"] != 1 {
			t.Errorf("said %v, want once that a is gone", said)
		}
		w.kept(before)
		w.need = 1
		w.ticks(30)
		if left := w.server.Instances("renamed"); !slices.ContainsFunc(left, func(i awsfake.Instance) bool { return i.ID == kept }) || len(w.server.Instances("")) > 2 {
			t.Errorf("%d instances are left, %+v of the renamed group: want the marked one", len(w.server.Instances("")), left)
		}
	})
}

// The tag of a group is taken away while one of its nodes drains, and added again a minute later. The group is gone, once, and others
// replace it; nothing of it ends. Afterwards it counts again, and the mark of an operator too.
func TestTagTakenAwayAndAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPartsWorld(t)
		w.ticks(3)
		kept, _ := w.marked("a")
		w.need = 5
		w.ticks(1)
		w.need = 6
		said := w.said(func(tick func(int)) {
			w.server.Mark("a", tag, "")
			tick(6)
			if n := len(w.server.Instances("a")); n != 2 || w.server.Target("b")+w.server.Target("sfr-c") != 6 {
				t.Errorf("a has %d instances, the others the target %d: want 2 and 6", n, w.server.Target("b")+w.server.Target("sfr-c"))
			}
			w.server.Mark("a", tag, ours)
			tick(30)
		})
		if len(said) != 1 || said["gone group a"] != 1 {
			t.Errorf("said %v, want once that a is gone", said)
		}
		if w.weight() != 6 || len(w.drains) > 0 || len(w.last.Problems) > 0 {
			t.Errorf("weight %d, drains %v, problems %q: want 6, and none; kept %v, %q, %v", w.weight(), w.drains, w.last.Problems, w.last.Detail.Kept, w.last.Detail.Refused, w.last.Result)
		}
		if !slices.ContainsFunc(w.server.Instances("a"), func(i awsfake.Instance) bool { return i.ID == kept }) {
			t.Errorf("the marked instance %s ended", kept)
		}
	})
}

// While a group is deleted, nothing of it is drained and it does not grow, and the reason is known. Then it is gone, once, and replaced.
func TestGroupThatIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPartsWorld(t)
		w.ticks(3)
		w.server.BeginDelete("a")
		w.need = 9
		w.ticks(6)
		if why := w.last.Case.Busy["a"]; !strings.Contains(why, "Delete in progress") || w.server.Target("a") != 2 || w.weight() != 9 {
			t.Errorf("a is busy by %q and has the target %d of %d: want its status, 2 of 9", why, w.server.Target("a"), w.weight())
		}
		w.need = 1
		w.ticks(30)
		for _, i := range w.server.Instances("a") {
			if w.cordon[i.ID] {
				t.Errorf("node %s of a is cordoned", i.ID)
			}
		}
		w.need = 6
		said := w.said(func(tick func(int)) {
			w.server.EndDelete("a")
			tick(8)
		})
		if len(said) != 1 || said["gone group a"] != 1 || w.server.Target("b")+w.server.Target("sfr-c") != 6 {
			t.Errorf("said %v, the others have the target %d: want once that a is gone, and 6", said, w.server.Target("b")+w.server.Target("sfr-c"))
		}
	})
}

// A selector finds 500 groups. The calls of a tick are bounded, and so are the lines when all of them are unknown, or refuse.
func TestSelectorOfManyGroups(t *testing.T) {
	if testprograms.WithoutRace(t, "pools/aws") {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		w := newPartsWorld(t)
		for i := range 500 {
			w.server.AddGroup(awsfake.ASG{Name: fmt.Sprintf("many-%03d", i), Max: 4, Desired: 1, ProtectNew: true, Tags: map[string]string{tag: ours}})
		}
		w.need = 506
		w.ticks(6)
		before := len(w.server.Calls())
		w.ticks(4)
		of := map[string]int{}
		for _, c := range w.server.Calls()[before:] {
			of[c.Action]++
		}
		if calls := (len(w.server.Calls()) - before) / 4; calls > 100 {
			t.Errorf("%d calls a tick, want at most 100: %v in 4 ticks", calls, of)
		}
		bounded := func(what string) {
			lines := w.warnings()
			if len(lines) == 0 || len(lines) > 40 || slices.ContainsFunc(lines, func(l string) bool { return len(l) > 1000 }) {
				t.Errorf("%s: %d lines in the status, the first is %.300q", what, len(lines), slices.Concat(lines, []string{"none"})[0])
			}
		}
		w.server.Deny("DescribeAutoScalingGroups", "")
		w.ticks(2)
		bounded("unknown")
		if n := len(w.last.Parts); n != 503 || w.last.Parts[0].State != api.PartUnknown {
			t.Errorf("%d parts are unknown, want 502 groups and their list", n)
		}
		w.server.Allow()
		w.ticks(2)
		w.server.Deny("SetDesiredCapacity", "")
		w.server.Deny("ModifySpotFleetRequest", "")
		w.need = 1000
		w.ticks(2)
		bounded("refused")
		if w.ended() > 0 {
			t.Errorf("%d instances ended", w.ended())
		}
	})
}

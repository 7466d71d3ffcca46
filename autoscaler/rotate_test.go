package autoscaler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/rotate"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
)

// rotationDay is a day of a pool whose machines are 40 days old, and which replaces machines that are older than 30 days.
type rotationDay struct {
	*day
	machines, budget int
	group            *cloud.Group
}

func newRotationDay(t *testing.T, machines, budget int) *rotationDay {
	d := newDay(t)
	d.loop.Close()
	g := cloud.New(cloud.Config{ID: "a", Max: machines + 20, Target: machines, Join: 90 * time.Second, Leave: time.Minute}, d.now.Add(-40*24*time.Hour))
	g.Advance(d.now)
	d.groups, d.nodes.groups, d.demand, d.scheduled = []*cloud.Group{g}, []*group{{Group: g}}, machines, true
	for i := range machines {
		d.nodes.tasks[fmt.Sprintf("a-%d", i+1)] = 2
	}
	d.health.set(snapshot.Condition{Budget: disruption.Budget{Limit: budget}})
	d.config.Prune.MaxWeight, d.config.Policy.Limits.Max = 100, 1000
	d.config.Policy.Limits.MaxRemove = 100
	d.config.Rotation.Gate = rotate.Gate{Wait: 2 * time.Minute, Within: 8 * time.Minute}
	d.rule("age>30d")
	d.born(-1)
	return &rotationDay{d, machines, budget, g}
}

// rule replaces the rules of the pool file.
func (d *day) rule(where string) {
	when, err := rotate.Parse(where)
	if err != nil {
		d.t.Fatal(err)
	}
	d.config.Rotation.Rules = []rotate.Rule{{Name: "rotation of " + where, Work: api.WorkRotate, When: when, Where: where}}
}

// window lets rotations begin only from that long after noon.
func (d *day) window(after time.Duration) {
	windows, problems := calendar.DecodeWindows([]calendar.WindowKeys{
		{Name: "w", Days: "daily", From: noon.Add(after).Format("15:04"), To: "23:59", TimeZone: "UTC", Allow: []string{"rotate"}},
	}, api.Works(), time.LoadLocation)
	if len(problems) > 0 {
		d.t.Fatal(problems)
	}
	d.config.Windows = windows
}

// old returns how many machines are left that were there at the beginning.
func (d *rotationDay) old() (n int) {
	for _, id := range d.running(d.group) {
		if number := 0; scan(id, &number) && number <= d.machines {
			n++
		}
	}
	return n
}

func scan(id string, number *int) bool { n, _ := fmt.Sscanf(id, "a-%d", number); return n == 1 }

// wantSafe checks the machines after any tick, also one in which the process died: never more out of service than the budget, and
// never fewer in service than the signals need.
func (d *rotationDay) wantSafe(when string) {
	d.t.Helper()
	records, err := d.records.Load(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	out := map[string]bool{}
	for _, r := range records {
		out[r.Node] = !drain.Stays(r)
	}
	gone, serves := 0, 0
	for _, id := range d.running(d.group) {
		if out[id] || d.nodes.cordoned[id] {
			gone++
		} else {
			serves++
		}
	}
	if gone > d.budget || serves < d.demand {
		d.t.Fatalf("%s: %d machines are out of service, the budget is %d; %d serve, the need is %d", when, gone, d.budget, serves, d.demand)
	}
}

// wantReplaced checks that each machine was replaced once, and that no new one ended.
func (d *rotationDay) wantReplaced(when string) {
	d.t.Helper()
	d.check()
	ended := map[string]bool{}
	for _, w := range d.group.Log() {
		for _, id := range w.Ended {
			number := 0
			if scan(id, &number); number > d.machines {
				d.t.Errorf("%s: the new machine %s ended", when, id)
			}
			ended[id] = true
		}
	}
	last := 0
	for _, id := range d.running(d.group) {
		number := 0
		scan(id, &number)
		last = max(last, number)
	}
	if running := len(d.running(d.group)); len(ended) != d.machines || last != 2*d.machines || running != d.machines {
		d.t.Fatalf("%s: %d machines ended, %d were launched, %d run: want each of %d to be replaced once", when, len(ended), last-d.machines, running, d.machines)
	}
}

// A hundred machines are overdue when a window opens, and the process dies again and again, before each kind of its calls. Each
// machine is replaced once, never more than the budget is out of service, and the need is always met.
func TestRotationOfAHundredMachines(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "autoscaler") {
		return
	}
	d := newRotationDay(t, 100, 3)
	d.loop.Close()
	d.window(30 * time.Minute)
	d.born(-1)
	kills := 0
	for i := range 1200 {
		if i > 30 && i%2 == 0 {
			d.loop.Close()
			d.born(kills % 19)
		}
		r := d.tick()
		if r == nil {
			kills++
		}
		d.wantSafe(fmt.Sprint("tick ", i))
		if left := d.old(); i < 29 && (left != 100 || r.Case.Rotation.Left != 100 || len(r.Case.Closed[api.WorkRotate]) == 0 || len(d.running(d.group)) != 100) {
			t.Fatalf("tick %d: %d of the machines are left, %+v", i, left, r.Case.Rotation)
		} else if left == 0 && i%2 == 1 && r != nil && r.Case.Rotation == nil && len(r.Drains) == 0 {
			d.wantReplaced("in the end")
			if kills < 50 {
				t.Errorf("the process died %d times", kills)
			}
			return
		}
	}
	t.Fatalf("%d machines are left", d.old())
}

// The process dies before each of its calls, in a rotation of a few machines.
func TestRotationKilledAnywhere(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "autoscaler") {
		return
	}
	fuse := 0
	for died := true; died; fuse++ {
		d := newRotationDay(t, 3, 1)
		d.loop.Close()
		d.born(fuse)
		died = false
		for i := range 60 {
			r := d.tick()
			died = r == nil || died
			d.wantSafe(fmt.Sprintf("killed before call %d, tick %d", fuse, i))
			if r != nil && r.Case.Rotation == nil && len(r.Drains) == 0 {
				break
			}
		}
		d.wantReplaced(fmt.Sprint("killed before call ", fuse))
		d.loop.Close()
	}
	if fuse < 60 {
		t.Errorf("the process made only %d calls", fuse)
	}
}

// In each second tick the process dies as soon as the provider has ended so many machines, or the response of a termination is lost. The
// next reading shows a target that these ends have lowered. It hides no raise, so no machine more is launched.
func TestRotationWithUnknownTerminations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ machines, budget, killAfter, first int }{
		{8, 3, 1, 1}, {8, 2, 0, 0}, {11, 3, 0, 0},
	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			t.Parallel()
			d := newRotationDay(t, test.machines, test.budget)
			defer func() { d.loop.Close() }()
			over := false
			for i := 0; i < 400 && !over; i++ {
				switch {
				case i%2 != test.first:
				case test.killAfter > 0:
					d.life.terminations = test.killAfter
				default:
					d.group.Drop(cloud.Terminate, 1)
				}
				r := d.tick()
				d.wantSafe(fmt.Sprint("tick ", i))
				over = r != nil && r.Case.Rotation == nil && len(r.Drains) == 0
			}
			d.wantReplaced("in the end")
		})
	}
}

// A bad image: the machines never join, or their nodes fail a check. One new machine is lost, and the rotation halts with that reason. After
// an operator resumes, it goes on.
func TestRotationToABadImage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, why string
		bad       func(n *nodes, f *api.NodeFacts)
	}{
		{"it never joins", "its node has not joined within 8m0s", nil},
		{"a check fails", "its condition disk failed: no space", func(_ *nodes, f *api.NodeFacts) {
			f.Conditions = []api.NodeCondition{{Type: "disk", Failed: true, Why: "no space"}}
		}},
		{"its copies are not ready", "1 of its 2 copies are not ready", func(_ *nodes, f *api.NodeFacts) { f.Tasks, f.Unready = 2, 1 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newRotationDay(t, 10, 3)
			defer func() { d.loop.Close() }()
			bad := true
			isBad := func(id string) bool { number := 0; return bad && scan(id, &number) && number > 10 }
			d.nodes.change(func(n *nodes) {
				if test.bad == nil {
					for i := 11; i < 100; i++ {
						n.mute[fmt.Sprintf("a-%d", i)] = true
					}
					return
				}
				n.tamper = func(f *api.NodeFacts) {
					if isBad(f.ID) {
						test.bad(n, f)
					}
				}
			})
			for i := range 60 {
				if i == 30 {
					d.loop.Close()
					d.born(-1) // the halt outlasts it
				}
				r := d.tick()
				if d.wantSafe(fmt.Sprint("tick ", i)); i < 20 {
					continue
				}
				if halt := strings.Join(r.Case.Rotation.Alarms(), "; "); !strings.Contains(halt, "rotation halted: the new machine a-11 failed its health gate: "+test.why) {
					t.Fatalf("tick %d: alarms %q, %+v", i, halt, r.State.Rotation)
				}
			}
			if running := d.running(d.group); d.old() != 10 || len(running) != 10 {
				t.Errorf("%q run, want the old ones", running)
			}
			bad = false
			d.nodes.change(func(n *nodes) { clear(n.mute) })
			d.book.change(func(o *api.Orders) { o.Resume = &api.Note{By: "me", At: d.now, Until: d.now.Add(time.Hour)} })
			for i := range 120 {
				d.tick()
				d.wantSafe(fmt.Sprint("resumed, tick ", i))
			}
			if d.old() != 0 || len(d.running(d.group)) != 10 {
				t.Errorf("%d of the old machines are left", d.old())
			}
		})
	}
}

// A condition that matches the new machine too would never end: it is refused after the first one, and an operator reads why.
func TestRotationThatMatchesTheNewMachines(t *testing.T) {
	t.Parallel()
	d := newRotationDay(t, 10, 3)
	defer func() { d.loop.Close() }()
	d.loop.Close()
	d.group.Launches("ami-1", "")
	d.config.Rotation.Rules = nil
	for i := range 10 { // the first ones have no image that is known
		d.group.Lose(fmt.Sprintf("a-%d", i+1))
	}
	d.born(-1)
	for range 4 {
		d.tick()
	}
	d.loop.Close()
	d.rule("image!=ami-2")
	d.born(-1)
	launched := 0
	for i := range 60 {
		r := d.tick()
		launched = max(launched, len(r.Case.Nodes))
		if i > 20 && !slices.ContainsFunc(r.Case.Rotation.Alarms(), func(line string) bool {
			return strings.HasPrefix(line, "rotation of image!=ami-2 is refused: the new machine a-21 matches image!=ami-2 too")
		}) {
			t.Fatalf("alarms %q", r.Case.Rotation.Alarms())
		}
	}
	if launched != 11 {
		t.Errorf("%d machines existed, want one more than 10", launched)
	}
}

// A rule "template!=current" replaces what an earlier template launched, and nothing while the group's template is unknown.
func TestRotationToTheCurrentTemplate(t *testing.T) {
	t.Parallel()
	d := newRotationDay(t, 4, 1)
	defer func() { d.loop.Close() }()
	d.loop.Close()
	d.rule("template!=current")
	d.born(-1)
	for range 10 { // the first machines have no template
		if r := d.tick(); r.Case.Rotation == nil || r.Case.Rotation.Left != 0 || r.Case.Rotation.Rules[0].Unknown != 4 {
			t.Fatalf("rotation %+v, want 4 machines of unknown template", r.Case.Rotation)
		}
	}
	d.loop.Close()
	d.group.Launches("", "web:2")
	d.rule("age>30d") // replaces the first ones by some of web:2
	d.born(-1)
	for i := 0; d.old() > 0; i++ {
		if d.tick(); i > 300 {
			t.Fatal("the first machines are not replaced")
		}
	}
	d.loop.Close()
	d.group.Launches("", "web:3")
	d.rule("template!=current")
	d.born(-1)
	done := false
	for range 300 {
		r := d.tick()
		if done = r.Case.Rotation == nil && len(r.Drains) == 0; done {
			break
		}
	}
	snapshot, err := d.group.Snapshot(t.Context())
	if err != nil || !done {
		t.Fatalf("done %t, %v", done, err)
	}
	for _, i := range snapshot.Instances {
		if i.State == api.InstanceRunning && i.Template != "web:3" {
			t.Errorf("%s is of template %q", i.ID, i.Template)
		}
	}
}

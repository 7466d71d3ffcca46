package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixed is a group of running instances of weight 1.
type fixed struct {
	pools.Group
	snapshot pools.GroupSnapshot
}

func (f fixed) ID() string                                            { return "a" }
func (f fixed) Snapshot(context.Context) (pools.GroupSnapshot, error) { return f.snapshot, nil }

// world has the instances of group a; the ones in upper case report.
type world struct{ nodes string }

func (w *world) Groups(context.Context) (pools.Listing, error) {
	s := pools.GroupSnapshot{ID: "a"}
	for id := range strings.FieldsSeq(strings.ToLower(w.nodes)) {
		s.Instances = append(s.Instances, pools.Instance{ID: id, Group: "a", Weight: 1, State: api.InstanceRunning})
	}
	return pools.Listing{Groups: []pools.Group{fixed{snapshot: s}}}, nil
}

func (w *world) Facts(time.Time) []api.NodeFacts {
	var out []api.NodeFacts
	for id := range strings.FieldsSeq(w.nodes) {
		if id == strings.ToUpper(id) {
			out = append(out, api.NodeFacts{ID: strings.ToLower(id), Resources: resource.Vector{resource.CPUs: 4}})
		}
	}
	return out
}

// lists is a provider of groups with a kind, and why groups may be missing.
type lists struct {
	groups  map[string]string // id -> kind
	missing pools.Missing
}

// kinded is a group of one kind without instances.
type kinded struct {
	pools.Group
	id, kind string
}

func (k kinded) ID() string { return k.id }
func (k kinded) Snapshot(context.Context) (pools.GroupSnapshot, error) {
	return pools.GroupSnapshot{ID: k.id, Kind: k.kind, Target: 3}, nil
}

func (l *lists) Groups(context.Context) (pools.Listing, error) {
	out := pools.Listing{Missing: l.missing}
	for _, id := range slices.Sorted(maps.Keys(l.groups)) {
		out.Groups = append(out.Groups, kinded{id: id, kind: l.groups[id]})
	}
	return out, nil
}

// A group whose kind was listed completely is gone if the list lacks it. A group of a kind that may be missing stays unknown, as does
// one whose kind was never read.
func TestMissingGroupsByKind(t *testing.T) {
	t.Parallel()
	l := &lists{groups: map[string]string{"asg-1": "asg", "sfr-1": "sfr", "sfr-2": "sfr"}}
	r := NewReader(Ports{Provider: l, Scheduler: &world{}})
	targets := map[string]int{"asg-1": 3, "sfr-1": 3, "sfr-2": 3, "new": 3}
	read := func() (all string) {
		t.Helper()
		s, err := r.Read(t.Context(), noon, targets, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Adopt(s)
		for _, g := range s.Groups {
			all += g.ID
			if g.Unknown != nil {
				all += "?"
			}
			all += " "
		}
		for _, id := range []string{"asg-1", "sfr-1", "new"} {
			all += fmt.Sprintf("%s:%t ", id, s.UnknownGroup(id))
		}
		return strings.TrimSpace(all)
	}
	denied := errors.New("denied")
	for i, step := range []struct {
		groups  map[string]string
		missing pools.Missing
		want    string
	}{
		{l.groups, nil, "asg-1 sfr-1 sfr-2 asg-1:false sfr-1:false new:false"},
		{map[string]string{"sfr-2": "sfr"}, pools.Missing{"asg": denied}, "asg-1? new? sfr-2 asg-1:true sfr-1:false new:true"},
		{map[string]string{"sfr-2": "sfr"}, pools.Missing{"asg": denied}, "asg-1? new? sfr-2 asg-1:true sfr-1:false new:true"},
		{map[string]string{"asg-1": "asg"}, pools.Missing{"sfr": denied}, "asg-1 new? sfr-1? sfr-2? asg-1:false sfr-1:true new:true"},
		{map[string]string{"asg-1": "asg"}, pools.Missing{"asg": denied, "sfr": denied}, "asg-1 new? sfr-1? sfr-2? asg-1:false sfr-1:true new:true"},
		{map[string]string{"asg-1": "asg"}, nil, "asg-1 asg-1:false sfr-1:false new:false"},
	} {
		l.groups, l.missing = step.groups, step.missing
		if got := read(); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

// A node that reports has joined. A node that does not report is silent if it had joined, or may
// have; otherwise it is an orphan. A joined node that disappears without a release is lost, and
// counts until a decision considered it.
func TestReader(t *testing.T) {
	t.Parallel()
	type step struct {
		after    time.Duration
		nodes    string
		released string
		settle   bool
		want     string // silent, orphaned, joined weight, lost
	}
	tests := []struct {
		name     string
		restored []string // nil: nothing was saved
		steps    []step
	}{
		{"nothing was saved", nil, []step{{0, "X y", "", false, "[y] [] 1 0"}, {time.Minute, "X y", "", false, "[y] [] 1 0"}}},
		{"silent and orphan", []string{"x"}, []step{{0, "x y", "", false, "[x y] [] 0 0"}, {time.Minute, "x y", "", false, "[x] [y] 0 0"}}},
		{"not long since the start", []string{}, []step{{0, "x", "", false, "[x] [] 0 0"}, {20 * time.Second, "x", "", false, "[x] [] 0 0"}, {20 * time.Second, "x", "", false, "[] [x] 0 0"}}},
		{"appears after the start", []string{}, []step{{0, "X y", "", false, "[y] [] 1 0"}, {time.Second, "X y z", "", false, "[y] [z] 1 0"}, {time.Second, "X y Z", "", false, "[y] [] 2 0"}, {time.Second, "X y z", "", false, "[y z] [] 1 0"}}},
		{"lost until it is settled", []string{"x", "y"}, []step{{0, "Y", "", false, "[] [] 1 1"}, {0, "Y", "", true, "[] [] 1 1"}, {0, "Y", "", true, "[] [] 1 0"}}},
		{"released", []string{"x", "y"}, []step{{0, "Y", "x", false, "[] [] 1 0"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, now := &world{}, noon
			r := NewReader(Ports{Provider: w, Scheduler: w})
			r.Restore(api.PoolState{Joined: test.restored}, test.restored != nil)
			for i, step := range test.steps {
				now, w.nodes = now.Add(step.after), step.nodes
				s, err := r.Read(t.Context(), now, nil, map[string]bool{step.released: true})
				if err != nil {
					t.Fatal(err)
				}
				var orphaned []string
				for _, n := range s.Nodes {
					if n.State == api.NodeOrphaned {
						orphaned = append(orphaned, n.Instance.ID)
					}
				}
				if got := fmt.Sprint(s.Silent, " ", orphaned, " ", s.Joined, " ", s.Lost); got != step.want {
					t.Errorf("step %d: %s, want %s", i, got, step.want)
				}
				r.Adopt(s)
				if step.settle {
					r.Settle()
				}
			}
		})
	}
}

// A refreshed snapshot has the same groups and newer reports. A node that joined after the snapshot

// Just after the start, the silence of a node has a meaning only if the node reported to this reader.
func TestStartingFor(t *testing.T) {
	t.Parallel()
	w, now := &world{}, noon
	r := NewReader(Ports{Provider: w, Scheduler: w})
	r.Restore(api.PoolState{Joined: []string{"x", "y"}}, true)
	read := func(nodes string, after time.Duration) (x, y bool) {
		t.Helper()
		now, w.nodes = now.Add(after), nodes
		s, err := r.Read(t.Context(), now, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Adopt(s)
		return s.StartingFor("x"), s.StartingFor("y")
	}
	for _, step := range []struct {
		nodes string
		after time.Duration
		x, y  bool
	}{{"x y", 0, true, true}, {"X y", time.Second, false, true}, {"x y", time.Second, false, true}, {"y", time.Second, true, true}, {"x y", time.Second, true, true}, {"x y", startTime, false, false}} {
		if x, y := read(step.nodes, step.after); x != step.x || y != step.y {
			t.Errorf("%v after the start, nodes %q: starting for x %v, for y %v, want %v and %v", now.Sub(noon), step.nodes, x, y, step.x, step.y)
		}
	}
}

// reports. A joined node without a report is silent.
func TestRefresh(t *testing.T) {
	t.Parallel()
	w := &world{nodes: "X y"}
	r := NewReader(Ports{Provider: w, Scheduler: w})
	r.Restore(api.PoolState{}, true)
	s, err := r.Read(t.Context(), noon, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.nodes = "x Y"
	s = s.Refresh(w.Facts(noon), nil)
	if !slices.Equal(s.Silent, []string{"x"}) || !s.Nodes[1].State.Joined() || s.Totals[resource.CPUs] != 4 {
		t.Errorf("silent %q, nodes %+v, totals %v", s.Silent, s.Nodes, s.Totals)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	instance := func(i pools.Instance) pools.GroupSnapshot {
		return pools.GroupSnapshot{ID: "a", Instances: []pools.Instance{i}}
	}
	tests := []struct {
		s    pools.GroupSnapshot
		want string
	}{
		{pools.GroupSnapshot{ID: "b"}, "is of group"},
		{pools.GroupSnapshot{ID: "a", Target: -1}, "target"},
		{instance(pools.Instance{Group: "a"}), "no id"},
		{instance(pools.Instance{ID: "x", Group: "b"}), "of group"},
		{instance(pools.Instance{ID: "x", Group: "a", Weight: -1}), "weight"},
	}
	for _, test := range tests {
		if err := check("a", test.s); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("check(%+v) = %v, want %q", test.s, err, test.want)
		}
	}
	if err := check("a", instance(pools.Instance{ID: "x", Group: "a", Weight: 1})); err != nil {
		t.Error(err)
	}
}

// Copies of a node count with at most what its machine has, whatever it reports of them.
func TestAllocatedIsBoundedByTheMachine(t *testing.T) {
	s := &Snapshot{Groups: []pools.GroupSnapshot{{ID: "a", Instances: []pools.Instance{
		{ID: "x", Group: "a", Weight: 1, State: api.InstanceRunning, Offers: resource.Vector{4, 16384}},
	}}}}
	s.joinInstances([]api.NodeFacts{{ID: "x", Resources: resource.Vector{4, 16384}, Allocated: resource.Vector{1e12, 8192}}}, nil, func(string) expectation { return expected })
	if want := (resource.Vector{4.4, 8192}); s.Allocated != want || len(s.Beyond) > 0 {
		t.Errorf("allocated %v, beyond %v; want %v", s.Allocated, s.Beyond, want)
	}
}

// An operator who lets nodes offer more than their machines have writes that into the pool file.
func TestConfiguredMachineRaisesTheBoundOfANode(t *testing.T) {
	for _, tt := range []struct {
		name            string
		offers, machine resource.Vector
		want            float64 // cpus that count
		beyond          int
	}{
		{"configured more", resource.Vector{4, 16384}, resource.Vector{8, 1024}, 8, 0},
		{"configured less", resource.Vector{4, 16384}, resource.Vector{2, 1024}, 4, 1},
		{"unknown machine", resource.Vector{}, resource.Vector{2, 1024}, 8, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Snapshot{
				machines: map[string]resource.Vector{"a": tt.machine},
				Groups: []pools.GroupSnapshot{{ID: "a", Instances: []pools.Instance{
					{ID: "x", Group: "a", Weight: 1, State: api.InstanceRunning, Offers: tt.offers},
				}}},
			}
			facts := []api.NodeFacts{{ID: "x", Resources: resource.Vector{8, 16384}}}
			s.joinInstances(facts, nil, func(string) expectation { return expected })
			again := s.Refresh(facts, nil)
			if s.Totals != (resource.Vector{tt.want, 16384}) || len(s.Beyond) != tt.beyond || again.Totals != s.Totals {
				t.Errorf("totals %v, beyond %v, then %v", s.Totals, s.Beyond, again.Totals)
			}
		})
	}
}

// A node that reports more than its machine has, as with --mem in bytes, counts with what the machine has, and is named.
func TestNodeBeyondItsMachineIsBounded(t *testing.T) {
	offers := resource.Vector{4, 16384, 100_000, 0}
	for _, tt := range []struct {
		name    string
		reports resource.Vector
		offers  resource.Vector
		totals  resource.Vector
		want    string
	}{
		{"less", resource.Vector{4, 15000, 90_000, 0}, offers, resource.Vector{4, 15000, 90_000, 0}, ""},
		{"units of 1000", resource.Vector{4, 17179, 100_000, 0}, offers, resource.Vector{4, 17179, 100_000, 0}, ""},
		{"bytes", resource.Vector{4, 17179869184, 100_000, 0}, offers, offers, "node x reports mem=17179869184, its machine has 16384: its resources are unknown, and the pool does not shrink: is --mem of its agent in bytes in place of MB?"},
		{"cpus", resource.Vector{1e9, 16384, 100_000, 0}, offers, offers, "node x reports cpus=1000000000, its machine has 4: its resources are unknown, and the pool does not shrink"},
		{"unknown kind", resource.Vector{1e9, 1e9, 0, 0}, resource.Vector{}, resource.Vector{1e9, 1e9, 0, 0}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Snapshot{Groups: []pools.GroupSnapshot{{ID: "a", Instances: []pools.Instance{{ID: "x", Group: "a", Weight: 1, State: api.InstanceRunning, Offers: tt.offers}}}}}
			s.joinInstances([]api.NodeFacts{{ID: "x", Resources: tt.reports, Allocated: tt.reports}}, nil, func(string) expectation { return expected })
			got := ""
			if len(s.Beyond) > 0 {
				got = s.Beyond[0].String()
			}
			if s.Totals != tt.totals || s.Allocated != tt.totals || got != tt.want || s.Joined != 1 {
				t.Errorf("totals %v, allocated %v, %q; want %v, %q", s.Totals, s.Allocated, got, tt.totals, tt.want)
			}
		})
	}
}

// A snapshot of some nodes has them as a snapshot of all nodes has them.
func TestRefreshOfSomeNodes(t *testing.T) {
	s := &Snapshot{joined: map[string]bool{"silent": true}}
	var facts []api.NodeFacts
	for _, group := range []string{"a", "b"} {
		g := pools.GroupSnapshot{ID: group}
		for _, id := range []string{"1", "2", "silent", "orphan"} {
			g.Instances = append(g.Instances, pools.Instance{ID: group + id, Group: group, Weight: 1, State: api.InstanceRunning})
			if id == "1" || id == "2" {
				facts = append(facts, api.NodeFacts{ID: group + id, Tasks: 1, At: noon})
			}
		}
		s.Groups = append(s.Groups, g)
		s.joined[group+"silent"] = true
	}
	only := map[string]bool{"a2": true, "asilent": true, "borphan": true, "other": true}
	want := slices.DeleteFunc(s.Refresh(facts, nil).Nodes, func(n pools.Node) bool { return !only[n.Instance.ID] })
	if got := s.Refresh(facts, only).Nodes; len(got) != 3 || !reflect.DeepEqual(got, want) {
		t.Errorf("nodes %+v, want %+v", got, want)
	}
}

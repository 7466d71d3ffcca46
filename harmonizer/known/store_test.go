package known

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/jsonfault"
)

func config() Config { return Config{DropletLost: 30 * time.Second} }

// sendHeartbeat passes a heartbeat to the store: "web/0 i0 v1 RUNNING" is a beat.
func sendHeartbeat(t testing.TB, s *Store, now time.Time, node string, beats ...string) {
	t.Helper()
	hb := api.Heartbeat{Node: node, Beats: []api.Beat{}}
	for _, line := range beats {
		var b api.Beat
		app, rest, _ := strings.Cut(line, "/")
		b.App = app
		if _, err := fmt.Sscan(rest, &b.Index, &b.Instance, &b.Version, &b.State); err != nil {
			t.Fatal(err)
		}
		hb.Beats = append(hb.Beats, b)
	}
	data, err := json.Marshal(hb)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Heartbeat(now, message.Node{}, data); err != nil {
		t.Fatal(err)
	}
}

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

func TestChanges(t *testing.T) {
	tests := []struct {
		name   string
		report func(s *Store)
		want   []string // after the changes of the first heartbeat
	}{
		{"silence as long as droplet_lost", func(s *Store) { s.Tick(at(30)) }, nil},
		{"silence longer than droplet_lost", func(s *Store) { s.Tick(at(30).Add(1)) }, []string{
			"node_lost n", "lost web/0 i0 v1 was RUNNING silent on n", "lost web/1 i1 v1 was STARTING silent on n"}},
		{"silence counts from hearing anew", func(s *Store) {
			s.Connected(at(25))
			s.Tick(at(55))
		}, nil},
		{"silence for a year", func(s *Store) { s.Tick(at(365 * 24 * 3600)) }, []string{
			"node_lost n", "lost web/0 i0 v1 was RUNNING silent on n", "lost web/1 i1 v1 was STARTING silent on n"}},
		{"the same again", func(s *Store) {
			sendHeartbeat(t, s, at(25), "n", "web/0 i0 v1 RUNNING", "web/1 i1 v1 STARTING")
			s.Tick(at(55))
		}, nil},
		{"one started", func(s *Store) {
			sendHeartbeat(t, s, at(1), "n", "web/0 i0 v1 RUNNING", "web/1 i1 v1 RUNNING")
		}, []string{"became_state web/1 i1 v1 was STARTING"}},
		{"one not listed for as long as droplet_lost", func(s *Store) {
			sendHeartbeat(t, s, at(10), "n", "web/1 i1 v1 STARTING")
			sendHeartbeat(t, s, at(35), "n", "web/1 i1 v1 STARTING")
			s.Tick(at(40))
		}, nil},
		{"one not listed for longer", func(s *Store) {
			sendHeartbeat(t, s, at(10), "n", "web/1 i1 v1 STARTING")
			sendHeartbeat(t, s, at(35), "n", "web/1 i1 v1 STARTING")
			s.Tick(at(40).Add(1))
		}, []string{"lost web/0 i0 v1 was RUNNING not_listed on n"}},
		{"one not listed, then listed", func(s *Store) {
			sendHeartbeat(t, s, at(10), "n", "web/1 i1 v1 STARTING")
			sendHeartbeat(t, s, at(35), "n", "web/0 i0 v1 RUNNING", "web/1 i1 v1 STARTING")
			s.Tick(at(41))
		}, nil},
		{"one not listed by a node that falls silent", func(s *Store) {
			sendHeartbeat(t, s, at(10), "n", "web/1 i1 v1 STARTING")
			s.Tick(at(41))
		}, []string{"lost web/0 i0 v1 was RUNNING not_listed on n", "node_lost n", "lost web/1 i1 v1 was STARTING silent on n"}},
		{"another index", func(s *Store) {
			sendHeartbeat(t, s, at(1), "n", "web/5 i0 v1 RUNNING", "web/1 i1 v1 STARTING")
		}, []string{"lost web/0 i0 v1 was RUNNING moved on n", "appeared web/5 i0 v1"}},
		{"another node", func(s *Store) {
			sendHeartbeat(t, s, at(1), "m", "web/0 i0 v1 RUNNING")
			sendHeartbeat(t, s, at(20), "m", "web/0 i0 v1 RUNNING")
			s.Tick(at(31))
		}, []string{"node_heard m", "node_lost n", "lost web/1 i1 v1 was STARTING silent on n"}},
		{"exit, then the same words bring it back", func(s *Store) {
			s.Exit(at(1), api.Exited{App: "web", Instance: "i0"})
			sendHeartbeat(t, s, at(2), "n", "web/0 i0 v1 RUNNING", "web/1 i1 v1 STARTING")
		}, []string{"lost web/0 i0 v1 was RUNNING exited on n", "appeared web/0 i0 v1"}},
		{"exit of another app", func(s *Store) {
			s.Exit(at(1), api.Exited{App: "api", Instance: "i0"})
		}, nil},
		{"exit of another id", func(s *Store) {
			s.Exit(at(1), api.Exited{App: "web", Instance: strings.Repeat("never-heard", 9)})
		}, nil},
		{"the first place of a repeated id counts", func(s *Store) {
			for range 2 {
				sendHeartbeat(t, s, at(1), "n", "web/0 i0 v1 RUNNING", "web/1 i1 v1 STARTING", "web/2 i0 v1 CRASHED")
			}
		}, nil},
		{"its second place counts when the first is gone", func(s *Store) {
			sendHeartbeat(t, s, at(1), "n", "web/0 i0 v1 RUNNING", "web/1 i1 v1 STARTING", "web/2 i0 v1 CRASHED")
			sendHeartbeat(t, s, at(2), "n", "web/3 i3 v1 RUNNING", "web/1 i1 v1 STARTING", "web/2 i0 v1 CRASHED")
		}, []string{"appeared web/3 i3 v1", "lost web/0 i0 v1 was RUNNING moved on n", "appeared web/2 i0 v1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := New(config())
			sendHeartbeat(t, s, at(0), "n", "web/0 i0 v1 RUNNING", "web/1 i1 v1 STARTING")
			if got, want := lines(s.Changes()), []string{"node_heard n", "appeared web/0 i0 v1", "appeared web/1 i1 v1"}; !slices.Equal(got, want) {
				t.Fatalf("first changes %q, want %q", got, want)
			}
			tt.report(s)
			if diff := cmp.Diff(tt.want, lines(s.Changes())); diff != "" {
				t.Errorf("changes (-want +got)\n%s", diff)
			}
			if again := s.Changes(); again != nil {
				t.Errorf("changes a second time: %q", lines(again))
			}
		})
	}
}

func TestLostCopyIsReadableUntilItsChangeWasTaken(t *testing.T) {
	s := New(config())
	const long = "i-of-more-than-sixteen-bytes"
	sendHeartbeat(t, s, at(0), "n", "web/0 "+long+" v1 RUNNING")
	c, ok := s.Find(long)
	if !ok {
		t.Fatal("the copy is not known")
	}
	s.Tick(at(31))
	sendHeartbeat(t, s, at(32), "m", "web/1 "+long+" v1 RUNNING") // before the change is taken
	if c.ID() != long || c.Node().Name != "n" || c.Index() != 0 || c.State() != api.CopyRunning {
		t.Errorf("the lost copy answers %s on %q", c.line("lost"), c.Node())
	}
	s.Changes()
	s.Tick(at(33))
	_, _, _, _, _ = c.ID(), c.Node(), c.Version(), c.State(), c.Beats() // invalid, but must not panic
	if d, ok := s.Find(long); !ok || d.Node().Name != "m" || d.Index() != 1 {
		t.Errorf("Find = %s on %q, %v", d.line("copy"), d.Node(), ok)
	}
}

// Each fault of one object makes that copy alone unknown: it keeps its state. The other copies of the heartbeat count, and the
// node runs.
func TestBadFieldIsOneUnknownCopy(t *testing.T) {
	const good = `{"droplet":"web","version":"v1","instance":"i1","index":1,"state":"RUNNING","state_timestamp":1}`
	const other = `{"droplet":"web","version":"v1","instance":"i0","index":0,"state":"EVACUATING","state_timestamp":1}`
	first := []byte(`{"dea":"n","droplets":[` + strings.Replace(other, "EVACUATING", "RUNNING", 1) + `,` + good + `]}`)
	rules := jsonfault.Rules{Optional: "state_timestamp"}
	legacy := jsonfault.Rules{Optional: "state_timestamp version"}
	for _, id := range []string{"droplet", "version", "instance", "state"} {
		legacy.Except = append(legacy.Except, jsonfault.Except{Field: id, Faults: []jsonfault.Fault{jsonfault.Type}, Values: "7 -1", Usable: true, Why: "legacy ids may be whole numbers"})
	}
	for _, c := range jsonfault.Under("droplets[0]", jsonfault.Cases(`{"dea":"n","droplets":[`+good+`,`+other+`]}`)) {
		for from, rules := range map[message.Node]jsonfault.Rules{{}: legacy, {Pool: "p", Name: "n"}: rules} {
			s, fine := New(config()), rules.Usable("droplets[0]", c)
			if err := s.Heartbeat(at(0), from, first); err != nil {
				t.Fatal(err)
			}
			s.Changes()
			for _, second := range []float64{10, 20} { // again, as the same bytes
				err := s.Heartbeat(at(second), from, []byte(c.Text))
				if _, part := errors.AsType[*message.UnreadError](err); (err == nil) != fine || err != nil && part != (c.Fault != jsonfault.NotJSON) {
					t.Errorf("%v: %v, want a good object: %v", c, err, fine)
				}
			}
			if got, ok := s.Find("i0"); !ok || c.Fault != jsonfault.NotJSON && got.State() != api.CopyEvacuating {
				t.Errorf("%v: the other copy does not count", c)
			}
			if s.Tick(at(33)); s.Len() == 0 && (from.Name != "" || c.Fault != jsonfault.NotJSON) {
				t.Errorf("%v: the node is lost", c)
			}
			if got, ok := s.Find("i1"); from.Name != "" && !fine && (!ok || got.State() != api.CopyRunning || absent(got) || !got.Unread()) {
				t.Errorf("%v: the unknown copy did not stay: %v", c, ok)
			}
			for range 2 { // the readable object is the one of the first heartbeat
				if err := s.Heartbeat(at(34), from, first); err != nil {
					t.Fatal(err)
				}
				if got, ok := s.Find("i1"); !ok || got.Unread() || absent(got) {
					t.Errorf("%v: the copy is not known again", c)
				}
			}
		}
	}
}

func absent(c Copy) bool {
	_, is := c.Absent()
	return is
}

// A heartbeat that is not readable changes nothing, but its node runs. On the legacy subject, the node must be readable.
func TestUnreadableHeartbeatProvesItsNode(t *testing.T) {
	for data, named := range map[string]bool{
		"": false, "{": false, "[]": false, `{"droplets":[]}`: false, `{"dea":7.5,"droplets":[]}`: false, `{"dea":"n","droplets":[{]}`: false,
		`{"dea":"n","dea":"n","droplets":[]}`: false, `{"dea":"n","droplets":{}}`: true, `{"dea":"n","droplets":null}`: true, `{"dea":"n"}`: true,
		`{"droplets":7,"dea":"n"}`: true, `{"dea":"n","droplets":[],"droplets":[]}`: true,
	} {
		for _, from := range []message.Node{{}, {Pool: "p", Name: "n"}} {
			s := New(config())
			if err := s.Heartbeat(at(0), from, []byte(`{"dea":"n","droplets":[{"droplet":"web","version":"v1","instance":"i0","index":0,"state":"RUNNING","state_timestamp":1}]}`)); err != nil {
				t.Fatal(err)
			}
			if err := s.Heartbeat(at(29), from, []byte(data)); err == nil {
				t.Errorf("%s: no error", data)
			}
			if err := s.Heartbeat(at(29), message.Node{Pool: "p", Name: "stranger"}, []byte(data)); err == nil {
				t.Errorf("%s: no error", data)
			}
			s.Tick(at(33))
			if c, ok := s.Find("i0"); ok != (named || from.Name != "") || ok && (c.State() != api.CopyRunning || absent(c)) {
				t.Errorf("%s from %v: the copy is known: %v", data, from, ok)
			}
		}
	}
}

func TestRepeatedContentUsesFastPaths(t *testing.T) {
	s := New(Config{DropletLost: 30 * time.Second, Partition: "default"})
	plain, later := heartbeats(t, 2, nil), heartbeats(t, 2, func(_ int, b *api.Beat) { b.Since += 10 })
	for i, messages := range [][][]byte{plain, plain, later, later, plain} {
		sendAll(t, s, at(float64(i)), messages)
	}
	if got, want := s.Reads(), (Reads{Same: 4, Parsed: 6}); got != want {
		t.Errorf("reads %+v, want %+v", got, want)
	}
	c, _ := s.Find(beatOf(0).Instance)
	if c.Beats() != 5 || c.Since() != beatOf(0).Since {
		t.Errorf("listed %d times in a row since %v", c.Beats(), c.Since())
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	const nodes = 4
	plain := heartbeats(t, nodes, nil)
	other := heartbeats(t, nodes, func(i int, b *api.Beat) {
		if i%2 == 0 {
			b.State = api.CopyStarting
		}
	})
	s, now, i := New(benchConfig()), start, 0
	step := func(what ...[][]byte) func() {
		return func() {
			i++
			now = now.Add(10 * time.Second)
			sendAll(t, s, now, what[i%len(what)])
			s.Tick(now)
		}
	}
	tests := []struct {
		name string
		step func()
	}{
		{"same", step(plain)},
		{"changed", step(plain, other)},
		{"an instance comes and goes", step(plain, heartbeats(t, nodes, func(i int, b *api.Beat) {
			if i == 0 {
				*b = beatOf(1e6)
			}
		}))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 2000 { // until each bucket of the wheel has its size
				tt.step()
			}
			if n := testing.AllocsPerRun(100, tt.step); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

func TestReadingDoesNotAllocate(t *testing.T) {
	s := New(benchConfig())
	sendAll(t, s, start, heartbeats(t, 1, nil))
	version := beatOf(7).Version
	a, _ := s.Lookup(beatOf(7).App)
	n := testing.AllocsPerRun(100, func() {
		for c := range s.Copies(a, 0) {
			if c.Beats() != 1 || c.State() != api.CopyRunning || c.Node().Name == "" || !c.OfVersion(version) || c.OfVersion("v1") {
				t.Errorf("the copy answers %s", c.line("copy"))
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestHostileIndices(t *testing.T) {
	s := New(config())
	var b strings.Builder
	b.WriteString(`{"dea":"n","droplets":[`)
	for i := range message.MaxBeats {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"droplet":"app%d","version":"v","instance":"i%d","index":99999,"state":"RUNNING","state_timestamp":1}`, i, i)
	}
	b.WriteString(`]}`)
	bytes := testing.Benchmark(func(b2 *testing.B) {
		b2.ReportAllocs()
		for b2.Loop() {
			s = New(config())
			if err := s.Heartbeat(start, message.Node{}, []byte(b.String())); err != nil {
				b2.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if s.Len() != message.MaxBeats || bytes > message.MaxBeats*4000 {
		t.Errorf("%d copies, %d bytes allocated", s.Len(), bytes)
	}
}

func TestManyCopiesOnOneIndex(t *testing.T) {
	s := New(config())
	var beats []string
	for i := range 5000 {
		beats = append(beats, fmt.Sprintf("web/%d i%d v1 RUNNING", i%2, i))
	}
	sendHeartbeat(t, s, at(0), "n", beats...)
	a, _ := s.Lookup("web")
	if n := s.Running(a)["v1"]; n != 5000 {
		t.Errorf("%d copies run", n)
	}
	if got := slices.Collect(s.Indices(a)); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("indices %v", got)
	}
	sendHeartbeat(t, s, at(1), "n", beats[:10]...)
	sendHeartbeat(t, s, at(30), "n", beats[:10]...)
	s.Tick(at(32))
	n := 0
	for range s.Copies(a, 1) {
		n++
	}
	if n != 5 || s.Len() != 10 {
		t.Errorf("%d copies at index 1, %d in all", n, s.Len())
	}
}

func TestRemovesUnusedApps(t *testing.T) {
	s := New(config())
	turn := func() { // the changes of one call are taken, so the next may remove
		s.Changes()
		s.Tick(start)
		s.Changes()
		s.Tick(start)
	}
	held := s.App("held")
	s.Hold(held)
	s.Hold(held)
	idle := s.App("idle")
	sendHeartbeat(t, s, start, "n", "web/0 i0 v1 RUNNING")
	turn()
	if _, ok := s.Lookup("idle"); ok || s.Name(idle) != "" {
		t.Error("an idle app is still known")
	}
	if a, ok := s.Lookup("held"); !ok || a != held || s.Name(a) != "held" {
		t.Errorf("Lookup(held) = %v, %v", a, ok)
	}
	s.Drop(held)
	s.Exit(start, api.Exited{App: "web", Instance: "i0"})
	web, ok := s.Lookup("web")
	if !ok {
		t.Error("an app is forgotten before its change was taken")
	}
	s.Hold(web)
	turn()
	if s.Name(held) != "held" || s.Name(web) != "web" {
		t.Error("a held app is forgotten")
	}
	s.Drop(held)
	s.Drop(web)
	turn()
	if s.Name(held) != "" || s.Name(web) != "" || s.apps.byName.len != 0 {
		t.Error("dropped apps are still known")
	}
	if a := s.App("new"); int(a) > 2 {
		t.Errorf("a new app is number %d", a)
	}
}

// TestRemovesWhatLeft adds and removes unknown names of every form for a long time.
func TestRemovesWhatLeft(t *testing.T) {
	s, now := New(config()), start
	for round := range 200 {
		var beats []string
		for i := range 20 {
			beats = append(beats, fmt.Sprintf("app-with-a-long-name-%d-%d/0 instance-with-a-long-name-%d-%d version-with-a-long-name-%d STATE-%d", round, i, round, i, round, round))
		}
		sendHeartbeat(t, s, now, fmt.Sprintf("node-%d", round%7), beats...)
		s.Changes()
		now = now.Add(11 * time.Second)
		s.Tick(now)
		s.Changes()
	}
	for range 2 {
		now = now.Add(time.Minute)
		s.Tick(now)
		s.Changes()
	}
	if s.Len() != 0 || s.copies.byID.len != 0 || s.apps.byName.len != 0 || s.nodes.bySum.len != 0 || len(s.texts.numbers) != 0 || len(s.nodes.byName) != 0 || s.deadlines.Len() != 0 {
		t.Errorf("%d copies, %d ids, %d names, %d sums, %d texts, %d nodes, %d deadlines are left", s.Len(), s.copies.byID.len,
			s.apps.byName.len, s.nodes.bySum.len, len(s.texts.numbers), len(s.nodes.byName), s.deadlines.Len())
	}
	if s.copies.used > 200 || len(s.apps.items) > 200 || len(s.texts.items) > 1000 || len(s.nodes.items) > 14 {
		t.Errorf("%d slots, %d apps, %d texts, %d nodes were needed", s.copies.used, len(s.apps.items), len(s.texts.items), len(s.nodes.items))
	}
}

func TestTimeThatGoesBackChangesNothing(t *testing.T) {
	s := New(config())
	sendHeartbeat(t, s, at(0), "n", "web/0 i0 v1 RUNNING")
	sendHeartbeat(t, s, at(-3600), "n", "web/0 i0 v1 RUNNING")
	s.Connected(at(-7200))
	s.Changes()
	s.Tick(at(-1e9))
	if s.Tick(at(30)); len(s.Changes()) != 0 {
		t.Error("something changed")
	}
}

func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table table
		in := map[uint32]uint64{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			n := rapid.Uint32Range(0, 60).Draw(t, "number")
			if hash, ok := in[n]; ok {
				table.remove(hash, n)
				delete(in, n)
			} else {
				in[n] = rapid.Uint64Range(0, 20).Draw(t, "hash") << 32
				table.addNumber(in[n], n)
			}
			if table.len != len(in) {
				t.Fatalf("%d numbers, want %d", table.len, len(in))
			}
		}
		for n, hash := range in {
			found := 0
			for p := table.probe(hash); ; {
				got, ok := table.next(&p)
				if !ok {
					break
				}
				if got == n {
					found++
				}
			}
			if found != 1 {
				t.Fatalf("%d is found %d times", n, found)
			}
		}
	})
}

// FuzzHeartbeat passes any bytes twice to a store with content. The second time must change
// nothing.
func FuzzHeartbeat(f *testing.F) {
	f.Add([]byte(`{"dea":"n","droplets":[{"cc_partition":"default","droplet":"web","version":"v1","instance":"i0","index":0,"state":"RUNNING","state_timestamp":1}]}`))
	f.Add([]byte(`{"dea":"m","droplets":[{"droplet":7,"version":null,"instance":"i0","index":99999,"state":"X","state_timestamp":1e3}]}`))
	f.Add([]byte(`{"dea":"n","droplets":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := New(config())
		sendHeartbeat(t, s, at(0), "n", "web/0 i0 v1 RUNNING", "web/1 i1 v1 STARTING")
		first := s.Heartbeat(at(1), message.Node{}, data)
		s.Changes()
		second := s.Heartbeat(at(1), message.Node{}, data)
		if changes := lines(s.Changes()); (first == nil) != (second == nil) || len(changes) != 0 {
			t.Errorf("%v, then %v and %q", first, second, changes)
		}
		s.Tick(at(100))
		if s.Len() != 0 {
			t.Errorf("%d copies outlive their nodes", s.Len())
		}
	})
}

package simulate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// recorded runs a scenario and returns its records as stored ones. change may change each record.
func recorded(t testing.TB, s simulate.Scenario, change func(*api.TickRecord)) *simulate.Recording {
	t.Helper()
	var stored bytes.Buffer
	lines := json.NewEncoder(&stored)
	s.Sink = func(r api.TickRecord) error {
		if change != nil {
			change(&r)
		}
		return lines.Encode(r)
	}
	run(t, s)
	out := &simulate.Recording{}
	for in := json.NewDecoder(&stored); ; {
		var r api.TickRecord
		if err := in.Decode(&r); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		if err := out.Add("", r); err != nil {
			t.Fatal(err)
		}
	}
}

// replay returns the comparison of a recording with its replay, and the ticks that differ.
func replay(t testing.TB, r *simulate.Recording) (api.Replayed, []api.ReplayedTick) {
	t.Helper()
	var all []api.ReplayedTick
	out, err := simulate.Replay(t.Context(), r, func(one api.ReplayedTick) error {
		all = append(all, one)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, all
}

// eventful is a pool of machines of two sizes, some of which are spot, for that many ticks of 10 seconds. Its demand changes each two
// minutes. It meets losses, interruptions with a warning, a shortage, a pause, an offset, a pin, and a failed signal.
func eventful(t testing.TB, ticks int) simulate.Scenario {
	small, large := machine("a", 6), machine("b", 8)
	large.Weight, large.Machine, large.Launch = 4, resource.Vector{17, 70_000}, simulate.Delay{P50: 40 * time.Second, P95: 90 * time.Second}
	small.Market.Spot, small.Interruptions, small.Warning = true, 1, 2*time.Minute
	large.Interruptions = 0.3
	s := simulate.Scenario{
		Seed: 7, Start: noon, Ticks: ticks, Pool: policy(0.8), Groups: []simulate.Group{small, large}, Delay: 10 * time.Second,
		Events: []simulate.Event{
			{At: 8 * time.Minute, For: 3 * time.Minute, Group: "b", Stock: new(12.0)},
			{At: 15 * time.Minute, For: 2 * time.Minute, Orders: &api.Orders{Pause: &api.Note{By: "ann", At: noon, Until: noon.Add(17 * time.Minute)}}},
			{At: 15*time.Minute + 30*time.Second, Zone: "za", Lost: true, For: 5 * time.Second}, // during the pause
			{At: 20 * time.Minute, For: 4 * time.Minute, Orders: &api.Orders{Offset: &api.Offset{Note: api.Note{By: "ann", At: noon, Until: noon.Add(24 * time.Minute)}, Weight: 5}}},
			{At: 27 * time.Minute, For: 3 * time.Minute, Silent: true},
			{At: 33 * time.Minute, For: 2 * time.Minute, Orders: &api.Orders{Pin: &api.Pin{Note: api.Note{By: "ann", At: noon, Until: noon.Add(35 * time.Minute)}, Target: 30}}},
			{At: 40 * time.Minute, Zone: "zb", Lost: true, For: time.Minute},
		},
	}
	s.Pool.Tick, s.Pool.Default.Period, s.Pool.Policy.Period = 10*time.Second, 10*time.Second, 10*time.Second
	s.Pool.Policy.MarginUp, s.Pool.Policy.MarginDown, s.Pool.Policy.Cooldown.Down = 0.05, 0.1, time.Minute
	s.Pool.Policy.Limits.MaxAdd, s.Pool.Policy.Limits.MaxRemove = 20, 8
	s.Pool.Apps = []ask.Signal{{App: "all", Name: "own", Period: 10 * time.Second, HoldFor: time.Minute}}
	var cpus []float64
	for i := range ticks/12 + 1 {
		cpus = append(cpus, 20+100*noise(i))
	}
	work := demand(t, 2*time.Minute, cpus...)
	work.Linger = 25 * time.Second
	s.Work = work
	return s
}

// An hour of a pool of two sizes with all that happens to it is decided again as it was.
func TestReplayOfAnEventfulHour(t *testing.T) {
	t.Parallel()
	got, differ := replay(t, recorded(t, eventful(t, 360), nil))
	for _, one := range differ {
		t.Logf("%s: target %v, replayed %v; %v, %v: %s", one.At.Format(time.TimeOnly), one.Target, one.Replayed, one.Groups, one.ReplayedGroups, one.Cause)
	}
	if got.Ticks < 350 || float64(got.Same) < 0.99*float64(got.Ticks) || got.Same+len(differ) != got.Ticks {
		t.Errorf("%d of %d ticks are the same, %d differ: want 99 %% of all", got.Same, got.Ticks, len(differ))
	}
}

// Machines that are lost during a pause are lost in the replay too, also where the provider has none in their place.
func TestReplayOfLossesDuringAPause(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		s := eventful(t, 180)
		s.Seed = seed
		s.Events = []simulate.Event{
			{At: 14 * time.Minute, For: 6 * time.Minute, Group: "b", Stock: new(1.0)},
			{At: 15 * time.Minute, For: 3 * time.Minute, Orders: &api.Orders{Pause: &api.Note{By: "ann", At: noon, Until: noon.Add(18 * time.Minute)}}},
			{At: 16 * time.Minute, Zone: "zb", Lost: true, For: 5 * time.Second},
		}
		lost := 0
		got, differ := replay(t, recorded(t, s, func(r *api.TickRecord) {
			if r.Case != nil && r.At.Sub(noon) == 18*time.Minute {
				lost = r.Case.Input.Lost
			}
		}))
		for _, one := range differ {
			t.Logf("%s: target %v, replayed %v; %v, %v: %s", one.At.Format(time.TimeOnly), one.Target, one.Replayed, one.Groups, one.ReplayedGroups, one.Cause)
		}
		if lost == 0 || got.Same != got.Ticks {
			t.Errorf("seed %d: %d machines were lost, and %d of %d ticks are the same: want all", seed, lost, got.Same, got.Ticks)
		}
	}
}

// A takeover of the lease is counted, and the ticks of the next holder are decided again too. Some are missing before it begins.
func TestReplayOfATakeover(t *testing.T) {
	t.Parallel()
	missing := func(r api.TickRecord) bool {
		at := r.At.Sub(noon)
		return at > 22*time.Minute && at < 23*time.Minute
	}
	var before, after int
	kept := recorded(t, eventful(t, 360), func(r *api.TickRecord) {
		r.Epoch = 1
		switch {
		case missing(*r):
			r.DryRun = true // the recording leaves it out
		case r.At.Sub(noon) >= 23*time.Minute:
			r.Epoch = 2
			after++
		default:
			before++
		}
	})
	got, differ := replay(t, kept)
	for _, one := range differ {
		t.Logf("%s: target %v, replayed %v; %v, %v: %s", one.At.Format(time.TimeOnly), one.Target, one.Replayed, one.Groups, one.ReplayedGroups, one.Cause)
	}
	if got.Takeovers != 1 || got.Ticks < before+after-2 || float64(got.Same) < 0.98*float64(got.Ticks) || !strings.Contains(strings.Join(got.Notes, "\n"), "gap: no record for 1m0s") {
		t.Errorf("%d of %d ticks are the same, %d takeovers, notes %q: want 98 %% of %d and one takeover", got.Same, got.Ticks, got.Takeovers, got.Notes, before+after)
	}
}

// So is one that distributes by cost: the record has what the groups cost.
func TestReplayByCost(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "simulate") {
		return
	}
	s := eventful(t, 360)
	s.Pool.Policy.Distribution, s.Pool.Policy.MaxShare, s.Pool.Policy.InterruptedWork, s.Prices = api.DistributeCheapest, 0.8, time.Hour, &price.Prices{}
	for i, g := range s.Groups {
		for k := range 5 { // the cheaper one changes
			hour := 0.2
			if i == k%2 {
				hour = 0.9
			}
			if err := s.Prices.Set(g.Market, noon.Add(time.Duration(k)*12*time.Minute), hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, differ := replay(t, recorded(t, s, nil))
	for _, one := range differ {
		t.Logf("%s: target %v, replayed %v; %v, %v: %s", one.At.Format(time.TimeOnly), one.Target, one.Replayed, one.Groups, one.ReplayedGroups, one.Cause)
	}
	if got.Ticks < 350 || float64(got.Same) < 0.99*float64(got.Ticks) {
		t.Errorf("%d of %d ticks are the same, want 99 %%", got.Same, got.Ticks)
	}
}

// The replay of random worlds is nearly that of the record.
func TestReplayOfRandomWorlds(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "simulate") {
		return
	}
	from, to := worlds(t, 4, 20)
	all, same := 0, 0
	for seed := from; seed < to; seed++ {
		r := recorded(t, randomWorld(t, seed), nil)
		if _, err := r.Replay(); err != nil {
			t.Logf("seed %d: %v", seed, err)
			continue
		}
		got, differ := replay(t, r)
		all, same = all+got.Ticks, same+got.Same
		if len(differ) > 0 {
			t.Logf("seed %d: %d of %d differ, the first at %v, %v for %v: %s", seed, len(differ), got.Ticks, differ[0].At.Sub(noon), differ[0].Replayed, differ[0].Target, differ[0].Cause)
		}
	}
	t.Logf("%d of %d ticks are the same", same, all)
	if float64(same) < 0.99*float64(all) {
		t.Errorf("%d of %d ticks are the same, want 99 %%", same, all)
	}
}

// The replay of a record whose policy is another one than that of its result differs, and each tick has its cause.
func TestReplayShowsAnotherPolicy(t *testing.T) {
	t.Parallel()
	got, differ := replay(t, recorded(t, eventful(t, 60), func(r *api.TickRecord) {
		c := *r.Case
		c.Input.Policy.Setpoint = 0.6
		r.Case = &c
	}))
	if got.Same > got.Ticks/2 || len(differ) != got.Ticks-got.Same {
		t.Fatalf("%d of %d ticks are the same, %d are listed", got.Same, got.Ticks, len(differ))
	}
	for _, one := range differ {
		if one.Cause == "" {
			t.Errorf("the tick of %v has no cause", one.At)
		}
	}
}

// returning is a pool whose drains are often taken back, and that loses nothing.
func returning(t testing.TB) simulate.Scenario {
	s := eventful(t, 60)
	s.Events = nil
	for i := range s.Groups {
		s.Groups[i].Interruptions = 0
	}
	work := demand(t, 30*time.Second, 60, 60, 30, 60, 60, 60, 30, 30, 30, 60, 30, 60, 60, 30)
	work.Linger = 80 * time.Second
	s.Work = work
	return s
}

// A drain that was taken back does not end, and the next drain of the same machine goes as it went.
func TestReplayOfADrainThatWasTakenBack(t *testing.T) {
	t.Parallel()
	taken := 0
	r := recorded(t, returning(t), func(r *api.TickRecord) {
		for _, a := range r.Actions {
			if a.Op == api.OpTakeBack {
				taken++
			}
		}
	})
	if taken == 0 {
		t.Fatal("no drain was taken back")
	}
	if got, differ := replay(t, r); got.Same != got.Ticks {
		t.Errorf("%d of %d ticks are the same; the first other one is %+v", got.Same, got.Ticks, differ[0])
	}
}

// A machine whose drain was taken back serves again at once: if it is lost before the next tick, that is a loss, and the other machines of
// its group stay. The provider also ends machines that drain.
func TestReplayOfLossesAmongDrainsThatWereTakenBack(t *testing.T) {
	t.Parallel()
	all, same, lost := 0, 0, 0
	for _, seed := range []uint64{2, 3, 24, 39} { // in these, drains and losses meet
		s := returning(t)
		s.Seed = seed
		for i := range s.Groups {
			s.Groups[i].Interruptions, s.Groups[i].Warning = 20, 0
		}
		got, differ := replay(t, recorded(t, s, func(r *api.TickRecord) { lost += r.Case.Input.Lost }))
		all, same = all+got.Ticks, same+got.Same
		if len(differ) > 0 {
			t.Errorf("seed %d: %d of %d ticks differ, the first: %+v", seed, len(differ), got.Ticks, differ[0])
		}
	}
	if lost < 40 || same != all {
		t.Errorf("%d of %d ticks are the same with %d lost machines, want all with at least 40", same, all, lost)
	}
}

// A recording that cannot be replayed is an error with what to do.
func TestRecordingsThatCannotBeReplayed(t *testing.T) {
	t.Parallel()
	var first api.TickRecord
	s := eventful(t, 3)
	s.Sink = func(r api.TickRecord) error {
		if first.Case == nil {
			first = r
		}
		return nil
	}
	run(t, s)
	later := func(change func(*api.TickRecord)) api.TickRecord {
		r := first
		r.At = r.At.Add(10 * time.Second)
		change(&r)
		return r
	}
	for _, test := range []struct {
		name string
		add  []api.TickRecord
		want string
	}{
		{"old schema", []api.TickRecord{later(func(r *api.TickRecord) { r.Schema = 0 }), first}, "1 records are of an older schema, the last of schema 0 at 2026-03-01T12:00:10Z (night.jsonl:1), and this weir replays schema 1: begin after it"},
		{"one tick", []api.TickRecord{first}, "the only tick with a decision is that of 2026-03-01T12:00:00Z: give a longer time"},
		{"no decision", []api.TickRecord{later(func(r *api.TickRecord) { r.Case = nil })}, "no tick of the 1 records has a decision"},
		{"two pools", []api.TickRecord{first, later(func(r *api.TickRecord) { r.Pool = "web" })}, "the record of 2026-03-01T12:00:10Z (night.jsonl:2) is of pool here/web, and earlier ones are of here/default: give the records of one pool"},
		{"no record", nil, "no tick of the 0 records has a decision"},
	} {
		var r simulate.Recording
		var err error
		for i, one := range test.add {
			err = errors.Join(err, r.Add(fmt.Sprintf("night.jsonl:%d", i+1), one))
		}
		if err = errors.Join(err, r.Check()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// Records out of order are left out, and a gap is replayed without ticks. Both are notes with the line of the record.
func TestReplayNotesGapsAndTimeThatRunsBackwards(t *testing.T) {
	t.Parallel()
	var all []api.TickRecord
	s := eventful(t, 60)
	s.Sink = func(r api.TickRecord) error {
		all = append(all, r)
		return nil
	}
	run(t, s)
	again := slices.Concat(all[:20], all[5:8], all[30:])
	var r simulate.Recording
	for i, one := range again {
		if err := r.Add(fmt.Sprintf("night.jsonl:%d", i+1), one); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := replay(t, &r)
	if got.Ticks != 49 || got.Skipped != 3 {
		t.Errorf("%d ticks are replayed and %d are left out, want 49 and 3", got.Ticks, got.Skipped)
	}
	notes := strings.Join(got.Notes, "\n")
	for _, want := range []string{
		"time runs backwards: the record of 2026-03-01T12:00:50Z (night.jsonl:21) follows one of 2026-03-01T12:03:10Z; it is left out",
		"time runs backwards in 3 records",
		"gap: no record for 1m50s before that of 2026-03-01T12:05:00Z (night.jsonl:24)",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes are\n%s\nwant %q", notes, want)
		}
	}
}

// A group without machines in the recording has those of another group, with a note.
func TestRecordingOfAGroupWithoutMachines(t *testing.T) {
	t.Parallel()
	r := recorded(t, eventful(t, 6), func(r *api.TickRecord) {
		r.Snapshot.Groups = append(slices.Clone(r.Snapshot.Groups), api.GroupSnapshot{ID: "idle", Max: 3})
	})
	groups := r.Groups()
	if len(groups) != 3 || groups[2].ID != "idle" || groups[2].Machine != groups[0].Machine || groups[2].Market.Type == "" || groups[2].Max != 3 {
		t.Errorf("the groups are %+v", groups)
	}
	if want := "no machine of group idle has joined in the recording: its machines count as those of group a"; !slices.Contains(r.Notes(), want) {
		t.Errorf("the notes are %q, want %q", r.Notes(), want)
	}
}

// Another policy meets the recorded luck: a lower setpoint costs more, and the same one costs the same.
func TestJudgeAnotherPolicy(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "simulate") {
		return
	}
	r := recorded(t, eventful(t, 180), nil)
	other := eventful(t, 1).Pool
	cost := func(setpoint float64) (before, after simulate.Result) {
		other.Policy.Setpoint = setpoint
		recorded, changed, err := r.Judge(other)
		if err != nil {
			t.Fatal(err)
		}
		return run(t, recorded), run(t, changed)
	}
	before, same := cost(0.8)
	if before.Offered != same.Offered || before.Removed != same.Removed || before.Changes != same.Changes {
		t.Errorf("the recorded policy offers %v, and the same one %v", before.Offered, same.Offered)
	}
	if _, lower := cost(0.5); lower.Offered[resource.CPUs] < 1.2*before.Offered[resource.CPUs] || lower.Unmet[resource.CPUs] > before.Unmet[resource.CPUs] {
		t.Errorf("a setpoint of 0.5 offers %v for %v, unmet %v for %v", lower.Offered, before.Offered, lower.Unmet, before.Unmet)
	}
}

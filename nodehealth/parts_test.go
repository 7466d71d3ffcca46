package nodehealth

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

// kitOf returns the shared parts of a pool.
func kitOf(w World) *shared {
	return &shared{config: Config{Pool: "p"}, world: &w, mail: newMailbox(), log: quiet()}
}

// judgeOf returns a judge with one healthy node after these events.
func judgeOf(now time.Time, events ...judge.Event) *judge.Judge {
	j := judge.New(plain(judge.Action{Name: api.ActionReboot}).WithDefaults())
	j.Step(now, judge.Nodes{List: []judge.Node{{ID: "n1", Since: now.Add(-24 * time.Hour)}}})
	for _, ev := range events {
		j.Step(now, ev)
	}
	return j
}

// recordsOf are the drain records of an autoscaler; nil: it has not read them.
type recordsOf []api.Drain

func (r recordsOf) Records() ([]api.Drain, bool) { return r, r != nil }

func TestPausesFollowDrainsAndOperators(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	deadline := now.Add(10 * time.Minute)
	leaves := api.Drain{Node: "n1", Group: "g", Weight: 1, State: api.DrainTerminating, Reason: api.DrainScaleIn, Since: now, Deadline: deadline}
	repaired, late := leaves, leaves
	repaired.Reason, repaired.Attempt = api.DrainRepair, "n1.1"
	late.Deadline = now.Add(-time.Hour)
	ofDrain := judge.Pause{Node: "n1", Owner: drainOwner, TTL: 11 * time.Minute, Why: string(api.DrainScaleIn)}
	ofPool := judge.Pause{Owner: poolOwner, TTL: poolPause, Why: "audit"}
	tests := []struct {
		name    string
		records recordsOf
		until   time.Time // of an existing pause of n1; zero: no pause
		paused  string
		before  []judge.Event
		want    []judge.Event
	}{
		{"a node leaves", recordsOf{leaves}, time.Time{}, "", nil, []judge.Event{ofDrain}},
		{"it still leaves", recordsOf{leaves}, deadline.Add(drainGrace), "", []judge.Event{ofDrain}, nil},
		{"beyond its deadline", recordsOf{late}, time.Time{}, "", nil,
			[]judge.Event{judge.Pause{Node: "n1", Owner: drainOwner, TTL: 2 * drainGrace, Why: string(api.DrainScaleIn)}}},
		{"a repair", recordsOf{repaired}, time.Time{}, "", nil, nil},
		{"it stays", recordsOf{}, deadline.Add(drainGrace), "", []judge.Event{ofDrain}, []judge.Event{judge.Resume{Node: "n1", Owner: drainOwner}}},
		{"unknown records", nil, deadline.Add(drainGrace), "", []judge.Event{ofDrain}, nil},
		{"the pool is paused", nil, time.Time{}, "audit", nil, []judge.Event{ofPool}},
		{"the pool is still paused", nil, time.Time{}, "audit", []judge.Event{ofPool}, nil},
		{"the pool resumes", nil, time.Time{}, "", []judge.Event{ofPool}, []judge.Event{judge.Resume{Owner: poolOwner}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := World{Drains: test.records, Paused: func() (string, bool) { return test.paused, true }}
			p := pauses{shared: kitOf(w), until: map[string]time.Time{}}
			if !test.until.IsZero() {
				p.until["n1"] = test.until
			}
			if got := p.sync(now, judgeOf(now, test.before...)); !slices.Equal(got, test.want) {
				t.Errorf("sync() = %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestOwnershipComparesWithThePolicy(t *testing.T) {
	tests := []struct {
		name        string
		act, self   bool
		why         string // why the provider repairs
		drift       bool
		other       bool // nothing is repaired
		alarm       bool
		repairOwner string
	}{
		{"as the policy says", true, true, "", false, false, false, ""},
		{"the provider repairs", true, true, "the group replaces", false, true, false, "the group replaces"},
		{"the provider repairs again", true, true, "the group replaces", true, true, true, "the group replaces"},
		{"the provider shall", true, false, "the group replaces", false, false, false, ""},
		{"the provider shall, and does not", true, false, "", false, false, true, "no owner: the policy assigns repairs to the provider, but the provider does not repair"},
		{"observed", false, true, "the group replaces", false, false, false, "the group replaces"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			k := kitOf(World{})
			if k.policy.Owner = api.OwnerProvider; test.self {
				k.policy.Owner = api.OwnerSelf
			}
			if k.policy.Mode = api.ModeObserve; test.act {
				k.policy.Mode = api.ModeAct
			}
			a := newAnnouncer(k)
			o := ownership{shared: k, announcer: a}
			got := o.found(time.Unix(1000, 0), test.why, test.drift)
			if alarm := len(a.activeAlarms()) == 1; got.Other != test.other || alarm != test.alarm || o.repairOwner != test.repairOwner {
				t.Errorf("found() = %+v, alarm %v, healer %q", got, alarm, o.repairOwner)
			}
		})
	}
}

func TestCordonWaitsUntilItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := &term{c: c, ctx: t.Context()}
		k, keeper := kitOf(World{Cordon: m, Writer: m}), newKeeper()
		k.policy.Mode = api.ModeAct
		all := cordons{shared: k, isDurable: keeper.isDurable, nodes: map[string]*cordon{}}
		now := time.Now()
		j := judge.New(plain(judge.Action{Name: api.ActionReboot}).WithDefaults())
		s := j.State()
		s.Nodes = []judge.NodeRecord{{Node: judge.Node{ID: "n1", Since: now}, State: api.StateQuarantined, Since: now, Until: now.Add(time.Hour)}}
		j, err := judge.Restore(now, plain(judge.Action{Name: api.ActionReboot}).WithDefaults(), s)
		if err != nil {
			t.Fatal(err)
		}
		all.addNode("n1", false)
		all.saving(keeper.setState([]byte("state")))
		for _, want := range []bool{false, true} {
			all.sync(t.Context(), now, j, true)
			k.mail.Wait()
			if got := c.boxes["n1"].cordoned; got != want {
				t.Errorf("the node is cordoned: %v, want %v", got, want)
			}
			keeper.durable(1)
		}
	})
}

func TestMailboxRequestIsDoneOrNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMailbox()
		done := 0
		err := m.do(t.Context(), func(time.Time, *judge.Judge) { done++ })
		(<-m.work)(time.Now(), nil) // after the patience of ask
		if err == nil || done != 0 {
			t.Errorf("without a Loop ask() = %v, done %d times", err, done)
		}
		go func() { (<-m.work)(time.Now(), nil) }()
		if err := m.do(t.Context(), func(time.Time, *judge.Judge) { done++ }); err != nil || done != 1 {
			t.Errorf("ask() = %v, done %d times, want once", err, done)
		}
		close(m.ended)
		for m.send(t.Context(), func(time.Time, *judge.Judge) batch { return batch{} }) == nil { // until it is full
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := m.do(ctx, func(time.Time, *judge.Judge) {}); !errors.Is(err, ErrNotRunning) && !errors.Is(err, context.Canceled) {
			t.Errorf("after the end ask() = %v", err)
		}
		m.offer("hints", func(time.Time, *judge.Judge) batch { return batch{} })
		for range workRoom {
			m.offer("hints", func(time.Time, *judge.Judge) batch { return batch{} })
		}
		if m.losses()["hints"] == 0 {
			t.Error("an offer without room is not counted")
		}
	})
}

// The judge receives the drained nodes once, and again when they change. Repairs are left out: the
// judge counts them itself.
func TestDrainsReachTheJudge(t *testing.T) {
	now := time.Unix(1000, 0)
	record := func(node string, reason api.DrainReason, state api.DrainState) api.Drain {
		return api.Drain{Node: node, Group: "g", Weight: 1, State: state, Reason: reason, Since: now, Deadline: now}
	}
	p := pauses{shared: kitOf(World{})}
	for _, s := range []struct {
		name    string
		records recordsOf
		want    map[string]disruption.Kind // nil: no event
	}{
		{"unknown records", nil, nil},
		{"no records", recordsOf{}, map[string]disruption.Kind{}},
		{"the same", recordsOf{}, nil},
		{"some leave", recordsOf{record("n1", api.DrainScaleIn, api.DrainChosen), record("n2", api.DrainRolling, api.DrainTerminating),
			record("n3", api.DrainRepair, api.DrainDraining), record("n4", api.DrainScaleIn, api.DrainReturned)},
			map[string]disruption.Kind{"n1": "scaling down", "n2": "rolling away"}},
		{"unknown again", nil, nil},
		{"they are gone", recordsOf{}, map[string]disruption.Kind{}},
	} {
		p.world.Drains = s.records
		got := p.drains()
		if len(got) != 0 != (s.want != nil) || len(got) > 0 && !maps.Equal(got[0].(judge.Drains).Out, s.want) {
			t.Errorf("%s: %+v, want %v", s.name, got, s.want)
		}
	}
}

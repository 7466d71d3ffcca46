package shadow

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

func start(app, version string, indices ...int) apps.Nudge {
	return apps.Nudge{Start: &api.Start{App: app, Version: version, Indices: indices}}
}

func stop(app string, ids ...string) apps.Nudge {
	s := &api.Stop{App: app, Instances: map[string]string{}}
	for _, id := range ids {
		s.Instances[id] = ""
	}
	return apps.Nudge{Stop: s}
}

// did is a nudge of one side at a second.
type did struct {
	at int
	by api.ShadowSide
	n  apps.Nudge
}

func second(n int) time.Time { return time.Unix(int64(n), 0) }

func play(m *Matcher, acts []did, end int) (alone []string) {
	next := 0
	for t := 0; t <= end; t++ {
		for ; next < len(acts) && acts[next].at == t; next++ {
			if acts[next].by == api.ShadowOwn {
				m.Own(second(t), acts[next].n)
			} else {
				m.Received(second(t), acts[next].n)
			}
		}
		for _, d := range m.Due(second(t)) {
			alone = append(alone, fmt.Sprintf("%d: at %d %s", t, d.At.Unix(), d))
		}
	}
	return alone
}

func TestMatch(t *testing.T) {
	tests := []struct {
		name string
		acts []did
		want []string
	}{
		{"both at once", []did{{1, api.ShadowOwn, start("a", "v", 0)}, {1, api.ShadowOther, start("a", "v", 0)}}, nil},
		{"the other first, at the edge of the window",
			[]did{{1, api.ShadowOther, stop("a", "i")}, {11, api.ShadowOwn, stop("a", "i")}}, nil},
		{"too late", []did{{1, api.ShadowOwn, start("a", "v", 0)}, {12, api.ShadowOther, start("a", "v", 0)}},
			[]string{"12: at 1 own alone: start a/0 version v", "23: at 12 other alone: start a/0 version v"}},
		{"one by one", []did{{1, api.ShadowOwn, start("a", "v", 0, 1, 2)}, {2, api.ShadowOther, start("a", "v", 2)}, {3, api.ShadowOther, start("a", "v", 0)}},
			[]string{"12: at 1 own alone: start a/1 version v"}},
		{"another version, another app, another op",
			[]did{{1, api.ShadowOwn, start("a", "v", 0)}, {1, api.ShadowOther, start("a", "w", 0)}, {1, api.ShadowOwn, stop("b", "i")}, {1, api.ShadowOther, stop("c", "i")}},
			[]string{"12: at 1 own alone: start a/0 version v", "12: at 1 other alone: start a/0 version w",
				"12: at 1 own alone: stop b instance i", "12: at 1 other alone: stop c instance i"}},
		{"repeats inside the window",
			[]did{{1, api.ShadowOwn, start("a", "v", 0)}, {2, api.ShadowOther, start("a", "v", 0)}, {5, api.ShadowOther, start("a", "v", 0)}, {9, api.ShadowOther, start("a", "v", 0)}}, nil},
		{"a repeat after the window",
			[]did{{1, api.ShadowOwn, start("a", "v", 0)}, {2, api.ShadowOther, start("a", "v", 0)}, {13, api.ShadowOther, start("a", "v", 0)}},
			[]string{"24: at 13 other alone: start a/0 version v"}},
		{"only the later of two has a match",
			[]did{{1, api.ShadowOwn, stop("a", "i")}, {5, api.ShadowOwn, stop("a", "i")}, {12, api.ShadowOther, stop("a", "i")}},
			[]string{"12: at 1 own alone: stop a instance i"}},
		{"versions of stopped instances do not matter",
			[]did{{1, api.ShadowOwn, apps.Nudge{Stop: &api.Stop{App: "a", Version: "v", Instances: map[string]string{"i": "v"}}}}, {2, api.ShadowOther, stop("a", "i")}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := New(Config{Window: 10 * time.Second, Limit: 100})
			if got := play(m, tt.acts, 40); !cmp.Equal(got, tt.want) {
				t.Errorf("mismatches:\n%s", cmp.Diff(tt.want, got))
			}
			if len(m.acts) != 0 || len(m.queue) != 0 {
				t.Errorf("%d acts and a queue of %d are left", len(m.acts), len(m.queue))
			}
		})
	}
}

func TestMemoryIsBounded(t *testing.T) {
	m := New(Config{Window: 10 * time.Second, Limit: 10})
	for i := range 1000 {
		m.Received(second(1), start("a", "v", i, i))
	}
	m.Own(second(1), start("b", "v", 0))
	if len(m.queue) != 11 || len(m.acts) > 11 {
		t.Errorf("a flood of the other's takes %d places", len(m.queue))
	}
	if n := len(m.Due(second(100))); n != 11 {
		t.Errorf("Due returned %d, want 11", n)
	}
	if got, want := m.Stats(), (api.ShadowStats{Own: 1, Other: 10, Dropped: 1990}); got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
	for i := range 1000 { // Due is not called
		m.Own(second(200+20*i), start("a", "v", 0))
	}
	if len(m.alone) > 20 {
		t.Errorf("%d mismatches are not returned yet", len(m.alone))
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{{}, {Window: 1, Every: 1}, {Limit: 1, Every: 1}, {Window: 1, Limit: 1}, {Window: -1, Limit: -1, Every: -1}} {
		if c.Validate() == nil {
			t.Errorf("Validate of %+v succeeded", c)
		}
	}
	if err := (Config{Window: 1, Limit: 1, Every: 1}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestEveryActIsMatchedOrReported compares with a search through everything.
func TestEveryActIsMatchedOrReported(t *testing.T) {
	const window = 10
	rapid.Check(t, func(t *rapid.T) {
		var acts []did
		at := 0
		for range rapid.IntRange(0, 40).Draw(t, "acts") {
			at += rapid.IntRange(0, 6).Draw(t, "later")
			acts = append(acts, did{at, rapid.SampledFrom([]api.ShadowSide{api.ShadowOwn, api.ShadowOther}).Draw(t, "by"),
				start("a", "v", rapid.IntRange(0, 2).Draw(t, "index"))})
		}
		var want []string
		for _, a := range acts {
			alone := true
			for _, b := range acts {
				near := max(a.at, b.at)-min(a.at, b.at) <= window
				alone = alone && !(b.by != a.by && near && b.n.Start.Indices[0] == a.n.Start.Indices[0])
			}
			if alone {
				want = append(want, fmt.Sprintf("%d: at %d %s alone: start a/%d version v", a.at+window+1, a.at, a.by, a.n.Start.Indices[0]))
			}
		}
		m := New(Config{Window: window * time.Second, Limit: 1000})
		if got := play(m, acts, at+20); !cmp.Equal(got, want) {
			t.Fatalf("mismatches:\n%s", cmp.Diff(want, got))
		}
		s := m.Stats()
		if int(s.Matched)+len(want) != len(acts) || int(s.Own+s.Other) != len(want) {
			t.Fatalf("Stats = %+v of %d acts", s, len(acts))
		}
	})
}

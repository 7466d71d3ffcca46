package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// A pool without a tick for two periods, and at least 5 s, is reported with what happens next.
func TestOverdue(t *testing.T) {
	now := time.Date(2026, 1, 2, 13, 0, 30, 0, time.Local)
	ago := func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }
	running := func(a *api.Alive) *api.Process { return &api.Process{State: "running", Alive: a} }
	silent := running(&api.Alive{At: ago(6), Overdue: true, RestartAt: now.Add(24 * time.Second)})
	for _, c := range []struct {
		name string
		r    api.TickRecord
		p    *api.Process
		want string // empty: nothing is reported
	}{
		{"on time", api.TickRecord{At: ago(2), Every: time.Second}, silent, ""},
		{"a second late", api.TickRecord{At: ago(5), Every: time.Second}, silent, ""},
		{"silent", api.TickRecord{At: ago(6), Every: time.Second}, silent,
			"no tick since 13:00:24, 6s ago (a tick is 1s): the autoscaler has not reported since 13:00:24, 6s ago; bootstrap restarts it at 13:00:54, in 24s"},
		{"a long tick", api.TickRecord{At: ago(110), Every: time.Minute}, silent, ""},
		{"ticks that take long", api.TickRecord{At: ago(10), Every: time.Second, Took: 6 * time.Second}, silent, ""},
		{"late and alive", api.TickRecord{At: ago(20), Every: time.Second}, running(&api.Alive{At: ago(1)}), "the autoscaler runs: its tick is long, "},
		{"not running", api.TickRecord{At: ago(20), Every: time.Second}, &api.Process{State: "backoff"}, "the autoscaler is in backoff; bootstrap starts it"},
		{"no bootstrap", api.TickRecord{At: ago(20), Every: time.Second}, nil, "bootstrap does not answer"},
	} {
		if got := Overdue(now, c.r, c.p); (got == "") != (c.want == "") || !strings.Contains(got, dated(now, c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSilentNode(t *testing.T) {
	now := time.Date(2026, 1, 2, 13, 0, 30, 0, time.Local)
	n := api.SilentNode{Node: "i-1", Copies: 3, Since: now.Add(-3 * time.Second), LostAt: now.Add(2 * time.Second)}
	want := "node i-1 is silent since 13:00:27, 3s ago: what it runs is unknown; the 3 instances that it listed start elsewhere at 13:00:32, in 2s"
	if got := silentNode(now, n); got != dated(now, want) {
		t.Errorf("SilentNode = %q, want %q", got, want)
	}
	other := api.SilentNode{Node: "i-2", Copies: 1, Since: now.Add(-4 * time.Second), LostAt: now.Add(time.Second)}
	want = "2 nodes are silent, the first since 13:00:26, 4s ago: what they run is unknown; the 4 instances that they listed start elsewhere from 13:00:31 on, in 1s: i-1, i-2"
	if got := SilentNodes(now, []api.SilentNode{n, other}); got != dated(now, want) {
		t.Errorf("SilentNodes = %q, want %q", got, want)
	}
	if got := SilentNodes(now, []api.SilentNode{n}); got != silentNode(now, n) {
		t.Errorf("SilentNodes of one = %q", got)
	}
	many := slices.Repeat([]api.SilentNode{{Node: "i-3", Since: now}}, 12)
	if got := SilentNodes(now, many); !strings.HasPrefix(got, "12 nodes are silent, ") || !strings.HasSuffix(got, "what they run is unknown: "+strings.Repeat("i-3, ", 9)+"i-3 and 2 more") {
		t.Errorf("SilentNodes of many = %q", got)
	}
	if got := SilentNodes(now, nil); got != "" {
		t.Errorf("SilentNodes of none = %q", got)
	}
	n.LostAt = now
	if got := silentNode(now, n); !strings.HasSuffix(got, "; the 3 instances that it listed start elsewhere") {
		t.Errorf("SilentNode after the end = %q", got)
	}
}

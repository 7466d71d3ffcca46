package placer

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestBadMessagesAreCountedAndLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p, err := New(Config{Cluster: "c", Pool: "p"}, Ports{}, slog.New(slog.NewTextHandler(&out, nil)))
		if err != nil {
			t.Fatal(err)
		}
		bad := Unusable{"weir.c.heartbeat.n", errors.New("not json")}
		for range 150 {
			if bad.apply(p, time.Now()) {
				t.Error("an unusable message changed the state")
			}
		}
		if n := strings.Count(out.String(), "\n"); n != 1 {
			t.Errorf("%d lines within a minute, want 1:\n%s", n, out.String())
		}
		out.Reset()
		<-time.After(time.Minute)
		bad.apply(p, time.Now())
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, " dropped=151 ") {
			t.Errorf("after a minute: %q, want one line with 151", got)
		}
	})
}

// A node reports the ends of its own copies only.
func TestExitOfAnotherNodesCopyIsRefused(t *testing.T) {
	p, err := New(Config{Cluster: "c", Pool: "p"}, Ports{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, node := range []string{"n1", "n2"} {
		Facts{api.NodeFacts{ID: node, Pool: "p"}}.apply(p, now)
	}
	Heartbeat{Heartbeat: api.Heartbeat{Node: "n1", Beats: []api.Beat{{App: "a", Version: "v", Instance: "i", State: api.CopyRunning}}}}.apply(p, now)
	end := api.Exited{App: "a", Version: "v", Instance: "i", Reason: api.ExitCrashed}
	if (Exit{"n2", end}).apply(p, now) || len(p.core.copies) != 1 || p.dropped != 1 {
		t.Errorf("exit from another node: %d copies, %d dropped; want 1, 1", len(p.core.copies), p.dropped)
	}
	if !(Exit{"n1", end}).apply(p, now) || len(p.core.copies) != 0 {
		t.Errorf("exit from the node: %d copies, want 0", len(p.core.copies))
	}
}

package apps

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// TestBackoff: by default the first crash is answered at once, later ones with growing delays,
// and after the fourth none.
func TestBackoff(t *testing.T) {
	cfg := steady()
	type step struct {
		after time.Duration
		rule  api.AppRule
		delay time.Duration
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"one after the other", []step{
			{0, api.AppRuleExitCrashed, 0}, {time.Second, api.AppRuleFlapping, 60 * time.Second}, {61 * time.Second, api.AppRuleFlapping, 120 * time.Second},
			{121 * time.Second, api.AppRuleFlapping, 240 * time.Second}, {241 * time.Second, api.AppRuleGiveUp, 0}}},
		{"calm in between", []step{{0, api.AppRuleExitCrashed, 0}, {501 * time.Second, api.AppRuleExitCrashed, 0}}},
		{"a restart delay is no calm", []step{{0, api.AppRuleExitCrashed, 0}, {time.Second, api.AppRuleFlapping, 60 * time.Second},
			{559 * time.Second, api.AppRuleFlapping, 120 * time.Second}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b backoff
			now := instant(time.Second)
			for i, s := range tt.steps {
				now = now.add(s.after)
				rule := b.crashed(&cfg, now, "web", 0)
				var delay time.Duration
				if b.restart != 0 {
					delay = time.Duration(b.restart - now)
				}
				if rule != s.rule || delay != s.delay || b.givenUp != (s.rule == api.AppRuleGiveUp) {
					t.Errorf("crash %d: %s after %v, given up %v, want %s after %v", i+1, rule, delay, b.givenUp, s.rule, s.delay)
				}
			}
		})
	}
}

func TestBackoffDecays(t *testing.T) {
	cfg := steady()
	b := backoff{crashes: 2, crashedAt: 10}
	if until := b.decay(&cfg, 20); until != instant(20).add(cfg.FlappingTimeout) || b.crashes != 2 {
		t.Errorf("crashes count until %d, there are %d", until, b.crashes)
	}
	if b.decay(&cfg, instant(20).add(cfg.FlappingTimeout)); b.crashes != 0 {
		t.Errorf("%d crashes count after the timeout", b.crashes)
	}
}

func TestBackoffMerges(t *testing.T) {
	for _, tt := range []struct {
		name       string
		own, other backoff
		down       bool
		want       backoff
	}{
		{"nothing of its own", backoff{}, backoff{crashes: 5, crashedAt: 10, restart: 20, givenUp: true}, true,
			backoff{crashes: 5, crashedAt: 10, restart: 20, givenUp: true}},
		{"the index runs", backoff{}, backoff{crashes: 5, crashedAt: 10, givenUp: true}, false, backoff{crashes: 5, crashedAt: 10}},
		{"the larger and the later", backoff{crashes: 3, crashedAt: 30, restart: 10}, backoff{crashes: 2, crashedAt: 20, restart: 40}, true,
			backoff{crashes: 3, crashedAt: 30, restart: 40}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.own.merge(tt.other, tt.down); tt.own != tt.want {
				t.Errorf("%+v, want %+v", tt.own, tt.want)
			}
		})
	}
}

func TestCrashTable(t *testing.T) {
	var table crashTable
	for i := range perTable + 2 {
		table.add(api.AppCrash{Instance: fmt.Sprint("i", i)}, instant(i+1))
	}
	if len(table) != perTable || table[0].Instance != "i2" {
		t.Fatalf("%d lines from %s, want %d from i2", len(table), table[0].Instance, perTable)
	}
	table.add(api.AppCrash{Instance: "i2", Description: "out of memory", Status: new(137)}, 500)
	if len(table) != perTable || table.description("i2") != "out of memory" || table[0].at != 3 {
		t.Errorf("a second report of i2 made %+v of %d lines", table[0], len(table))
	}
	if table.description("i9") != "" || table.description("unknown") != "" {
		t.Error("a description that no node gave")
	}
	if table.prune(perTable + 2); len(table) != 1 {
		t.Errorf("%d lines from the last instant on, want 1", len(table))
	}
	if table.prune(1000); table != nil {
		t.Errorf("%d lines after all were too old", len(table))
	}
}

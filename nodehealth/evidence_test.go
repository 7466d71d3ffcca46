package nodehealth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// memoryStore stores evidence in memory, or fails.
type memoryStore struct {
	c    *cloud
	fail error
	all  [][]byte
}

func (s *memoryStore) Save(_ context.Context, node string, data []byte) (string, error) {
	if s.fail != nil {
		return "", s.fail
	}
	s.c.with(func() { s.all = append(s.all, data) })
	return fmt.Sprintf("%s/%d", node, len(s.all)), nil
}

// Evidence about a machine is saved before it is replaced or rebuilt, and the repair record names
// it. If that fails, the repair continues.
func TestEvidence(t *testing.T) {
	full := errors.New("the stream is full")
	for _, test := range []struct {
		name       string
		action     api.RepairAction
		console    string
		consoleErr error // error of the console
		storeErr   error // error of the store
		saved      int
	}{
		{"of a machine that is replaced", api.ActionRecreate, "kernel panic", nil, nil, 1},
		{"of a machine that is rebuilt", api.ActionRebuild, "kernel panic\xff", nil, nil, 1},
		{"not of a machine that is rebooted", api.ActionReboot, "kernel panic", nil, nil, 0},
		{"without its console", api.ActionRecreate, "", errors.New("no right"), nil, 1},
		{"in vain", api.ActionRecreate, "kernel panic", nil, full, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(ten()...)
				savedState := &memoryStore{c: c, fail: test.storeErr}
				m := c.begin(t, plain(judge.Action{Name: test.action}), func(w *World) {
					w.Evidence = savedState
					w.Console = func(_ context.Context, node string) ([]byte, error) {
						return []byte(test.console), test.consoleErr
					}
				})
				pass(time.Minute)
				disk := []api.NodeCondition{{Type: "disk", Failed: true, Why: "full"}}
				c.with(func() { c.boxes["n4"].conditions = disk })
				pass(10 * time.Second)
				c.markUnhealthy("n4", "hung") // silent from now on
				c.with(func() { c.boxes["n4"].conditions = nil })
				named := ""
				for range 300 {
					pass(time.Second)
					for _, r := range c.recorded() {
						named = r.Evidence
					}
				}
				m.stop(t)
				if !m.saw("repair.started n4") || m.saw("repair.failed n4") || len(savedState.all) != test.saved || (named != "") != (test.saved > 0) {
					t.Fatalf("saved %d, named %q, want %d:\n%s", len(savedState.all), named, test.saved, m.dump())
				}
				if test.saved == 0 {
					return
				}
				var got api.Evidence
				if err := json.Unmarshal(savedState.all[0], &got); err != nil {
					t.Fatal(err)
				}
				if len(got.Modes) != 2 || got.At.IsZero() || got.ConditionsAt.IsZero() || !strings.Contains(got.Reason, "hung") {
					t.Errorf("evidence %+v", got)
				}
				want := api.Evidence{
					At: got.At, Pool: "p", Node: "n4", Group: "g", Zone: "b", Attempt: got.Attempt, Action: test.action, Reason: got.Reason, Modes: got.Modes,
					Conditions: disk, ConditionsAt: got.ConditionsAt, Console: strings.ToValidUTF8(test.console, "\ufffd"),
				}
				if test.consoleErr != nil {
					want.ConsoleError = "no right"
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("evidence (-want +got):\n%s", diff)
				}
				if named != "n4/1" {
					t.Errorf("the record names %q", named)
				}
			})
		})
	}
}

package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/pools/pooltest"
)

func harness(o *owner) pooltest.Harness {
	return pooltest.Harness{
		Group: o, Lose: kill, WaitLimit: localtest.WaitLimit,
		Pass: func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		},
	}
}

func TestConformance(t *testing.T) {
	pooltest.Run(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.Harness {
		return harness(newOwner(t, groupOf(s)))
	})
}

// releasedOwner returns an owner that leaves repairs to the test.
func releasedOwner(t *testing.T, s pooltest.Setup) (*owner, *local.Pool) {
	o := newOwner(t, groupOf(s))
	pool := local.NewPool(o.bus.Conn, "c", "p", s.ID)
	if err := pool.ReleaseRepair(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o, pool
}

// stopBy returns a function that kills a machine and waits until inspections report it as stopped.
func stopBy(pool *local.Pool) func(*testing.T, string) {
	return func(t *testing.T, id string) {
		t.Helper()
		kill(t, id)
		localtest.Until(t, id+" is stopped", func() bool {
			all, err := pool.Inspect(t.Context(), pools.Inspecting{})
			return err == nil && slices.ContainsFunc(all, func(i pools.Inspection) bool { return i.ID == id && i.Stopped })
		})
	}
}

func TestRepairerConformance(t *testing.T) {
	pooltest.RunRepairer(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.RepairerHarness {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(t.TempDir(), "agent")
		repair := func(t *testing.T) {
			t.Helper()
			if err := os.Symlink(testprograms.Plain("pools/local", exe), link); err != nil {
				t.Fatal(err)
			}
		}
		repair(t)
		o := ownerOf(t, groupOf(s), func(c *local.Config) { c.Argv = []string{link, "agent"} })
		pool := local.NewPool(o.bus.Conn, "c", "p", s.ID)
		if err := pool.ReleaseRepair(t.Context()); err != nil {
			t.Fatal(err)
		}
		return pooltest.RepairerHarness{
			Harness: harness(o), Stop: stopBy(pool),
			// This is as good as a boot id, and available at once.
			Boot: func(t *testing.T, id string) string {
				if pids := pidsOf(t, "--id="+id); pids != nil {
					return fmt.Sprint(pids)
				}
				return ""
			},
			Break: func(t *testing.T, _ string, on bool) {
				t.Helper()
				if !on {
					repair(t)
				} else if err := os.Remove(link); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func TestIsolatorConformance(t *testing.T) {
	pooltest.RunIsolator(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.IsolateHarness {
		o, _ := releasedOwner(t, s)
		agents, copies := wire.NewClient(o.bus.Conn, "c", "p"), 0
		for _, id := range o.running(t, s.Target) {
			localtest.Until(t, id+" answers", func() bool {
				_, err := agents.Logs(t.Context(), id, wire.LogsRequest{App: "web"})
				return err == nil
			})
		}
		return pooltest.IsolateHarness{
			Harness: harness(o),
			Stall: func(t *testing.T, on bool) {
				change := thaw
				if on {
					change = freeze
				}
				for _, id := range o.running(t, s.Target) {
					change(t, id)
				}
			},
			Fenced: func(t *testing.T, id string, way pools.Fence) bool {
				if way == pools.FenceCompute {
					return pidsOf(t, "--id="+id) == nil
				}
				copies++
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				err := agents.Start(ctx, id, wire.StartRequest{App: "web", Instance: fmt.Sprint("x", copies), Command: "true"})
				return errors.Is(err, wire.ErrFenced) || errors.Is(err, wire.ErrNoAgent)
			},
		}
	})
}

func TestInspectorConformance(t *testing.T) {
	pooltest.RunInspector(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.InspectHarness {
		o, pool := releasedOwner(t, s)
		return pooltest.InspectHarness{
			Harness: harness(o), Provider: pool, Stop: stopBy(pool),
			Machine: func(t *testing.T, id string) {
				t.Helper()
				if err := pool.MarkUnhealthy(t.Context(), id, "it is sick"); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func TestRepairOwnerConformance(t *testing.T) {
	pooltest.RunRepairOwner(t, pooltest.RealTime, func(t *testing.T, s pooltest.Setup) pooltest.RepairOwnerHarness {
		o := newOwner(t, groupOf(s))
		pool := local.NewPool(o.bus.Conn, "c", "p", s.ID)
		return pooltest.RepairOwnerHarness{
			Harness: harness(o), Provider: pool, Stop: stopBy(pool),
			ResumeRepair: func(t *testing.T) {
				t.Helper()
				if err := pool.ResumeRepair(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

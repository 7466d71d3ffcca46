package autoscaler

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// partsOf returns parts with the apps of a configuration, and more.
func partsOf(c Config, more map[string]string) map[string]string {
	parts := map[string]string{}
	for _, app := range c.Apps {
		parts["app "+app.App] = "its settings"
	}
	maps.Copy(parts, more)
	return parts
}

// shrinkable returns a pool of four machines. The app web requests all of them, and the default signal requests one.
func shrinkable(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, []int{4}, "web")
	w.asks(sigproto.DefaultApp, cpusPerNode)
	w.asks("web", 4*cpusPerNode)
	w.config.Parts, w.config.Grace = partsOf(w.config, nil), 5*time.Minute
	if r := w.tick(); r.Configuration != nil || r.ConfigurationHold != nil {
		t.Fatalf("the first configuration is a change: %+v, %+v", r.Configuration, r.ConfigurationHold)
	}
	w.wantTarget(4)
	return w
}

// forget removes the apps from the world's configuration.
func (w *world) forget() {
	w.config.Apps = nil
	w.config.Parts = partsOf(w.config, nil)
}

func TestPoolDoesNotShrinkWithinTheConfigurationGrace(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"reload": false, "restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := shrinkable(t)
			w.forget()
			if restart {
				w.start()
			} else {
				w.reconfigure()
			}
			for minute := range 5 {
				r := w.tick()
				if changed := r.Configuration != nil; changed != (minute == 0) {
					t.Errorf("minute %d: change %v", minute, r.Configuration)
				}
				if minute == 0 && r.Configuration.String() != "left: app web" {
					t.Errorf("the change is %q", r.Configuration)
				}
				hold := r.ConfigurationHold
				if hold == nil || hold.Until.Sub(hold.At) != 5*time.Minute || r.Result.Target != 4 || r.Detail.Refused != hold.Why {
					t.Fatalf("minute %d: hold %+v, target %v, refused %q", minute, hold, r.Result.Target, r.Detail.Refused)
				}
				if want := "app web left the configuration at " + hold.At.UTC().Format(time.RFC3339) + ": the pool does not shrink until " +
					hold.Until.UTC().Format(time.RFC3339) + ` (configuration_grace); "weir pool accept" ends this`; hold.Why != want {
					t.Errorf("why is %q, want %q", hold.Why, want)
				}
				if restart && minute == 2 {
					w.start()
				}
			}
			w.wantCalls()
			if r := w.tick(); r.ConfigurationHold != nil || r.Result.Target >= 4 {
				t.Errorf("after the grace: hold %+v, target %v, want less than 4", r.ConfigurationHold, r.Result.Target)
			}
		})
	}
}

// A part that is there again as it was ends the hold, and a part that left or changed later begins another one.
func TestConfigurationHoldEndsWithItsCause(t *testing.T) {
	t.Parallel()
	w := shrinkable(t)
	apps := w.config.Apps
	w.forget()
	w.reconfigure()
	w.tick()
	w.config.Apps = apps
	w.config.Parts = partsOf(w.config, map[string]string{"scaling_limits.max_capacity": "10"})
	w.reconfigure()
	if r := w.tick(); r.ConfigurationHold != nil || r.Configuration.String() != "came: app web, scaling_limits.max_capacity" {
		t.Errorf("with the app again: hold %+v, change %s", r.ConfigurationHold, r.Configuration)
	}
	w.config.Parts = partsOf(w.config, map[string]string{"scaling_limits.max_capacity": "1"})
	w.config.Policy.Limits.Max = 1
	w.reconfigure()
	r := w.tick()
	if r.ConfigurationHold == nil || r.Configuration.String() != "changed: scaling_limits.max_capacity 10 -> 1" || r.Result.Target != 4 {
		t.Errorf("with a lower limit: hold %+v, change %s, target %v", r.ConfigurationHold, r.Configuration, r.Result.Target)
	}
	w.wantTarget(4)
	w.wantCalls()
}

// An acceptance ends the hold for what left before it, and not for what leaves later.
func TestConfigurationIsAccepted(t *testing.T) {
	t.Parallel()
	w := shrinkable(t)
	w.config.Parts = partsOf(w.config, map[string]string{"draining.force_terminate": "false"})
	w.reconfigure()
	w.tick()
	w.forget()
	w.reconfigure()
	first := w.tick().ConfigurationHold
	accept := func(through time.Time) {
		accepted := &api.Acceptance{Note: api.Note{By: "ann", At: w.now}, Through: through}
		w.book.change(func(o *api.Orders) { o.Accepted = accepted })
	}
	accept(first.At.Add(-time.Second))
	if r := w.tick(); r.ConfigurationHold == nil {
		t.Fatal("an acceptance of an earlier change ends the hold")
	}
	accept(first.At)
	if r := w.tick(); r.ConfigurationHold != nil || r.Result.Target >= 4 || len(r.Orders) != 1 {
		t.Errorf("after the acceptance: hold %+v, target %v, orders %v", r.ConfigurationHold, r.Result.Target, r.Orders)
	}
}

// The change is recorded also if the first record fails, and the longer one of two graces counts.
func TestConfigurationChangeIsRecordedOnce(t *testing.T) {
	t.Parallel()
	w := shrinkable(t)
	w.forget()
	w.config.Grace = time.Second
	w.reconfigure()
	fail := func(err error) {
		w.ledger.mu.Lock()
		defer w.ledger.mu.Unlock()
		w.ledger.fail = err
	}
	fail(errors.New("no space"))
	w.now = w.now.Add(time.Minute)
	if err := w.loop.Tick(t.Context(), w.now); err != nil {
		t.Fatal(err)
	}
	fail(nil)
	w.start()
	r := w.tick()
	if r.Configuration == nil || r.Configuration.String() != "left: app web" || r.ConfigurationHold == nil {
		t.Errorf("the change is lost: %v, hold %+v", r.Configuration, r.ConfigurationHold)
	}
	if r := w.tick(); r.Configuration != nil {
		t.Errorf("the change is recorded twice: %v", r.Configuration)
	}
}

// While the policy of node health is another one, no repair begins.
func TestNoRepairAfterTheHealthPolicyChanged(t *testing.T) {
	t.Parallel()
	w := shrinkable(t)
	w.clock = func() time.Time { return w.now }
	w.config.Parts = partsOf(w.config, map[string]string{"health.mode": "act"})
	w.reconfigure()
	w.tick()
	w.config.Parts = partsOf(w.config, nil)
	w.reconfigure()
	w.tick()
	answer, err := w.loop.repair(t.Context(), pools.RepairRequest{Node: "a-1", Attempt: "1", Deadline: w.now.Add(time.Hour), Why: "it is broken"})
	if err != nil || answer == nil || !strings.Contains(answer.Error(), "no repair begins: health.mode left the configuration") {
		t.Errorf("the repair: %v, %v", answer, err)
	}
}

// ReloadWorld is a pool of four machines, all requested by web and mail, for tests that read configuration files.
type ReloadWorld struct{ *world }

// NewReloadWorld returns a pool that has ticked with a configuration.
func NewReloadWorld(t *testing.T, c Config) ReloadWorld {
	w := ReloadWorld{newWorld(t, []int{4}, "web", "mail")}
	w.asks(sigproto.DefaultApp, cpusPerNode/2)
	w.asks("web", 2*cpusPerNode)
	w.asks("mail", 2*cpusPerNode)
	w.config = c
	w.tick()
	return w
}

// Adopt passes configurations to the loop, between two ticks. A new process has the last one only.
func (w ReloadWorld) Adopt(process bool, configs ...Config) {
	w.t.Helper()
	for _, c := range configs {
		w.config = c
		if !process {
			w.reconfigure()
		}
	}
	if process {
		w.start()
	}
}

// Tick runs a tick a minute after the last one. It fails if a group receives a request or has not four machines.
func (w ReloadWorld) Tick(what string) api.TickRecord {
	w.t.Helper()
	r := w.tick()
	if calls := w.calls(); calls != nil || r.Failed != "" || r.Result.Target < 4 || len(r.Drains) > 0 {
		w.t.Fatalf("%s\nthe groups were asked for %q, failed %q, target %v, drains %v, hold %+v", what, calls, r.Failed, r.Result.Target, r.Drains, r.ConfigurationHold)
	}
	return r
}

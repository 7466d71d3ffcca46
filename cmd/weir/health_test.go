package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	recreate  = "{name: RECREATE, timeout: 40}"
	succeeded = string(api.HealthRepairSucceeded)
	started   = string(api.HealthRepairStarted)
	attempted = string(api.HealthRepairAttempt)
)

// TestHealth makes local machines die, freeze and disappear, and their surroundings fail, as
// docs/node-health.md promises that they may.
func TestHealth(t *testing.T) {
	t.Parallel()
	scenes := map[string]func(*testing.T){
		"starts the dead": healthStartsTheDead, "resets the frozen": healthResetsTheFrozen, "replaces the frozen": healthReplacesTheFrozen,
		"polls URLs": healthPollsURLs, "of all": healthOfAll, "of a zone": healthOfAZone, "beside scale-in": healthBesideScaleIn,
		"observes": healthObserves, "fences": healthFences, "takes hints": healthTakesHints, "under up": healthUnderUp,
		"is taken over": healthIsTakenOver, "killed in a workflow": healthIsKilledInAWorkflow,
	}
	for _, way := range ways() {
		for lane := range killLanes {
			scenes[fmt.Sprint("killed ", way.name, " ", lane)] = func(t *testing.T) { healthIsKilled(t, way, lane) }
		}
	}
	runScenes(t, scenes)
}

// has reports whether a machine is there.
func (w *ward) has(node string) bool {
	w.Helper()
	return slices.ContainsFunc(w.machines(), func(i pools.Instance) bool { return i.ID == node })
}

// zone returns the machines of a zone, the oldest first.
func (w *ward) zone(name string) (out []string) {
	w.Helper()
	for _, i := range w.machines() {
		if i.Market.Zone == name {
			out = append(out, i.ID)
		}
	}
	return out
}

// passes advances the time without expected events.
func (w *ward) passes(span time.Duration) {
	select {
	case <-time.After(span):
	case <-w.Context().Done():
	}
}

// A machine that has died is started; one that does not come up by that is replaced.
func healthStartsTheDead(t *testing.T) {
	w := newWard(t, wardOptions{actions: "{name: START, timeout: 30}, " + recreate, each: 2})
	victim, mark := w.oldest(), w.now()
	boot := w.boot(victim)
	w.signalTo(syscall.SIGKILL, victim)
	w.comes(mark, succeeded, victim)
	w.isWell("after a start", 4)
	w.expectStarted(mark, 1)
	if now := w.boot(victim); now == boot || !w.has(victim) {
		t.Errorf("%s is there: %v, its boot was %s and is %s", victim, w.has(victim), boot, now)
	}

	for _, m := range w.machines() { // after a relapse of the first one, its next action would follow at once
		if m.ID != victim {
			victim = m.ID
			break
		}
	}
	mark = w.now()
	folder := filepath.Join(w.machine, "machines", victim)
	w.signalTo(syscall.SIGSTOP, victim) // so that no process reads its folder
	if err := errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	w.signalTo(syscall.SIGKILL, victim)
	w.comes(mark, string(api.HealthNodeReplaced), victim)
	w.isWell("after a replacement", 4)
	if w.has(victim) {
		t.Errorf("%s is there", victim)
	}
	var actions []api.RepairAction
	for _, h := range w.of(mark, started, attempted) {
		actions = append(actions, h.shownElsewhere.Action)
	}
	if !slices.Equal(actions, []api.RepairAction{api.ActionStart, api.ActionRecreate}) {
		t.Errorf("actions: %v", actions)
	}
	if got := w.others(mark, victim); got != 1 {
		t.Errorf("%d other machines were started, want 1", got)
	}
}

// others is how many machines were started since a mark, beside that one.
func (w *ward) others(mark int, node string) (n int) {
	for _, h := range w.of(mark, "machine started") {
		if h.node != node {
			n++
		}
	}
	return n
}

// A frozen machine is reset, under its id, and not while it is paused.
func healthResetsTheFrozen(t *testing.T) {
	// The time is more than the 30 s in which a new autoscaler leaves a node alone that does
	// not report.
	w := newWard(t, wardOptions{actions: "{name: REBOOT, params: {type: hard}, timeout: 50}, " + recreate, each: 2})
	victim, mark := w.oldest(), w.now()
	boot := w.boot(victim)
	w.weir("node", "pause", victim, "--for", "10m", "--why", "it is looked at")
	w.signalTo(syscall.SIGSTOP, victim)
	blocked := w.comes(mark, string(api.HealthRepairBlocked), victim)
	if blocked.shownElsewhere.Gate != api.GatePause {
		t.Errorf("%v", blocked.shownElsewhere.HealthFinding)
	}
	w.passes(2 * time.Second)
	w.expectUntouched(mark)

	mark = w.now()
	w.weir("node", "resume", victim)
	w.comes(mark, succeeded, victim)
	w.isWell("after", 4)
	w.expectStarted(mark, 1)
	if now := w.boot(victim); now == boot || !w.has(victim) {
		t.Errorf("%s is there: %v, its boot was %s and is %s", victim, w.has(victim), boot, now)
	}
	if a := w.of(mark, started, attempted); len(a) != 1 || a[0].shownElsewhere.Action != api.ActionReboot {
		t.Errorf("attempts: %+v", a)
	}
}

// A frozen machine is replaced, and goes when the other one has come.
func healthReplacesTheFrozen(t *testing.T) {
	w := newWard(t, wardOptions{actions: recreate, each: 2})
	victim, mark := w.oldest(), w.now()
	w.signalTo(syscall.SIGSTOP, victim)
	least := 4.0
	eventually(t, "a replacement", func() error {
		r, err := w.record()
		if err != nil {
			return err
		}
		least = min(least, r.Snapshot.Joined)
		if len(w.of(mark, succeeded)) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	w.isWell("after", 4)
	w.expectStarted(mark, 1)
	if least < 3 {
		t.Errorf("%v machines reported meanwhile, want at least the 3 that work", least)
	}
	w.expectLaunchedFirst(mark)

	mark = w.now()
	victim = w.oldest()
	w.weir("node", "recover", victim) // which reports, and is empty
	w.comes(mark, succeeded, "")
	w.isWell("after a wish", 4)
	w.expectStarted(mark, 1)
	w.expectLaunchedFirst(mark)
	if w.has(victim) {
		t.Errorf("%s is there", victim)
	}
}

// expectLaunchedFirst checks that the machine that ended since a mark did so when the
// other one had come.
func (w *ward) expectLaunchedFirst(mark int) {
	w.Helper()
	came, went := w.comes(mark, "first heard", ""), w.comes(mark, "machine ended", "")
	if !came.at.Before(went.at) {
		w.Errorf("it ended at %v, and the other one was heard at %v", went.at, came.at)
	}
}

// One node's URL never answers: that node alone is replaced.
func healthPollsURLs(t *testing.T) {
	var hole atomic.Value
	hole.Store("")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/"+hole.Load().(string) {
			<-r.Context().Done()
		}
		fmt.Fprint(w, "ok")
	}))
	defer web.Close()
	port := web.URL[strings.LastIndex(web.URL, ":"):]
	w := newWard(t, wardOptions{actions: recreate, each: 2, policy: replacing("      - {type: LIFECYCLE_EVENTS}\n", fmt.Sprintf(
		"      - {type: NODE_STATUS_POLL_URL, options: {poll_url: \"http://{private_ip}%s/{node}\", poll_url_retry_limit: 2, poll_url_retry_interval: 0, poll_url_timeout: 1, poll_url_healthy_response: ^ok, failure_threshold: 1, success_threshold: 1}}\n", port))})
	victim, mark := w.oldest(), w.now()
	hole.Store(victim)
	w.comes(mark, string(api.HealthNodeReplaced), victim)
	w.isWell("after", 4)
	w.expectStarted(mark, 1)
	for _, h := range w.of(mark, string(api.HealthNodeSuspect), string(api.HealthNodeUnhealthy)) {
		if h.node != victim || !strings.Contains(h.shownElsewhere.Why, string(api.DetectPollURL)) {
			t.Errorf("%v", h.shownElsewhere.HealthFinding)
		}
	}
}

// NATS goes away for longer than a silent node is given, and all nodes freeze at once:
// nothing is repaired, and all is well by itself.
func healthOfAll(t *testing.T) {
	w := newWard(t, wardOptions{actions: "{name: START}, " + recreate, each: 2, lease: 3 * time.Second})
	mark := w.now()
	w.nats.stop()
	w.passes(5 * time.Second)
	w.nats.start()
	w.isWell("after NATS was away", 4)
	w.passes(3 * time.Second) // as long as a silent node is given
	w.isWell("later", 4)
	w.expectUntouched(mark)

	mark = w.now()
	var all []string
	for _, i := range w.machines() {
		all = append(all, i.ID)
	}
	w.signalTo(syscall.SIGSTOP, all...)
	w.comes(mark, string(api.HealthBreakerOpened), "")
	alarm := w.comes(mark, "alarm", "")
	w.passes(3 * time.Second)
	if alarms := w.of(mark, "alarm"); len(alarms) != 1 || !strings.Contains(alarm.shownElsewhere.Why, "nodes are unhealthy, limit 1: no repairs") {
		t.Errorf("alarms: %+v", alarms)
	}
	if shown := w.weir("node", "status"); !strings.Contains(shown, "! breaker of the pool is open since") {
		t.Errorf("health status says:\n%s", shown)
	}
	w.signalTo(syscall.SIGCONT, all...)
	w.comes(mark, string(api.HealthBreakerClosed), "")
	w.isWell("after the freeze", 4)
	w.expectUntouched(mark)
}

// A zone is frozen as a whole: it is left alone, and the other one is served.
func healthOfAZone(t *testing.T) {
	w := newWard(t, wardOptions{actions: recreate, each: 3})
	mark, zone := w.now(), w.zone("blue")
	w.signalTo(syscall.SIGSTOP, zone...)
	if f := w.comes(mark, string(api.HealthZoneFrozen), ""); f.shownElsewhere.Zone != "blue" {
		t.Errorf("%v", f.shownElsewhere.HealthFinding)
	}
	victim := w.zone("green")[0]
	w.signalTo(syscall.SIGSTOP, victim)
	w.comes(mark, succeeded, "")
	w.signalTo(syscall.SIGCONT, zone...)
	w.comes(mark, string(api.HealthZoneThawed), "")
	w.isWell("after", 6)
	w.expectStarted(mark, 1)
	for _, h := range w.of(mark, "machine ended", started, attempted) {
		if h.node != victim {
			t.Errorf("%s %s: want %s alone", h.what, h.node, victim)
		}
	}
}

// A node that is removed is not repaired, sick or not. Scale-in chooses no silent node, so an operator removes it by name.
func healthBesideScaleIn(t *testing.T) {
	w := newWard(t, wardOptions{actions: recreate, each: 2, policy: replacing("min_capacity: 4", "min_capacity: 1")})
	victim, mark := w.oldest(), w.now()
	w.signalTo(syscall.SIGSTOP, victim)
	w.comes(mark, string(api.HealthNodeSuspect), victim)
	w.weir("pool", "drain", victim)
	w.comes(mark, string(api.HealthPauseTaken), victim)
	if b := w.comes(mark, string(api.HealthRepairBlocked), victim); b.shownElsewhere.Gate != api.GatePause {
		t.Errorf("%v", b.shownElsewhere.HealthFinding)
	}
	w.signalTo(syscall.SIGCONT, victim)
	w.comes(mark, "machine ended", victim)
	w.isWell("after", 4)
	w.expectStarted(mark, 1)
	if a := w.of(mark, started, attempted, string(api.HealthBreakerOpened)); len(a) > 0 || w.has(victim) {
		t.Errorf("%s is there: %v; repairs: %+v", victim, w.has(victim), a)
	}

	mark = w.now()
	w.weir("pool", "target", "1")
	w.isWell("after more have gone", 1)
	if a := w.of(mark, string(api.HealthNodeSuspect), string(api.HealthBreakerOpened)); len(a) > 0 {
		t.Errorf("who was let go is taken for sick: %+v", a)
	}
}

// A policy in mode observe only reports: its owner replaces dead machines.
func healthObserves(t *testing.T) {
	w := newWard(t, wardOptions{actions: recreate, each: 2, policy: replacing("mode: act", "mode: observe")})
	victim, mark := w.oldest(), w.now()
	w.signalTo(syscall.SIGSTOP, victim)
	if f := w.comes(mark, started, victim); !f.shownElsewhere.Observe || f.shownElsewhere.Action != api.ActionRecreate {
		t.Errorf("%v", f.shownElsewhere.HealthFinding)
	}
	w.passes(3 * time.Second)
	if got := w.of(mark, "machine started", "machine ended", "target set"); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	w.signalTo(syscall.SIGCONT, victim)
	w.isWell("thawed", 4)

	other := w.machines()[1].ID
	w.signalTo(syscall.SIGKILL, other)
	w.comes(mark, "machine ended", other)
	w.isWell("after a death", 4)
	w.expectStarted(mark, 1)
	if w.has(other) || !w.has(victim) {
		t.Errorf("%s is there: %v; %s is: %v", other, w.has(other), victim, w.has(victim))
	}
}

// On an exclusive pool nothing takes a machine's place until it is known to be off.
func healthFences(t *testing.T) {
	w := newWard(t, wardOptions{actions: recreate, each: 2, policy: replacing(
		"mode: act", "mode: act\n  exclusive: true", "recovery: {", "recovery: {fencing: [SERVICE, COMPUTE], fencing_options: {timeout: 30}, ")})
	victim, mark := w.oldest(), w.now()
	w.signalTo(syscall.SIGSTOP, victim)
	w.comes(mark, succeeded, "")
	w.isWell("after", 4)
	w.expectStarted(mark, 1)
	off, known := w.comes(mark, "machine ended", victim), w.comes(mark, string(api.HealthFenceConfirmed), victim)
	next := w.comes(mark, "machine started", "")
	if !off.at.Before(next.at) || !known.at.Before(next.at) {
		t.Errorf("off at %v, confirmed at %v: %s; the next one started at %v", off.at, known.at, known.shownElsewhere.Why, next.at)
	}
}

// A hint causes a probe of a machine now, before its turn.
func healthTakesHints(t *testing.T) {
	w := newWard(t, wardOptions{actions: "{name: START}", each: 1, policy: replacing("interval: 5", "interval: 600")})
	victim, mark := w.oldest(), w.now()
	w.signalTo(syscall.SIGKILL, victim)
	w.comes(mark, "machine ended", victim)
	w.passes(2 * time.Second)
	w.expectStarted(mark, 0)
	hint := fmt.Sprintf(`{"event": "compute.instance.shutdown.end", "state": "SHUTDOWN", "instance_id": %q, "timestamp": "%s", "publisher": "nova"}`,
		victim, time.Now().UTC().Format("2006-01-02 15:04:05.000000"))
	hinted := time.Now()
	if err := w.nc.Publish(events.LifecycleSubject(w.cluster, "default"), []byte(hint)); err != nil {
		t.Fatal(err)
	}
	again := w.comes(mark, "machine started", victim)
	t.Logf("started %v after the hint", again.at.Sub(hinted).Round(time.Millisecond))
	if again.at.Sub(hinted) > 10*time.Second {
		t.Errorf("started at %v, hinted at %v", again.at, hinted)
	}
}

// All of it on one machine, by "weir up": a frozen machine is replaced.
func healthUnderUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pool.yaml")
	text := wardPool(wardOptions{actions: recreate, each: 2})
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	u := startUp(t, t.TempDir(), "--pool-file", file)
	var victim string
	u.pool(t, "a pool of 4", func(s api.PoolStatus) error {
		if s.LastTick.Case != nil && len(s.LastTick.Case.Nodes) > 0 {
			victim = s.LastTick.Case.Nodes[0].ID
		}
		return sized(4)(s)
	})
	eventually(t, "a heartbeat of "+victim, func() error {
		s, err := runJSON[api.HealthStatus](u, "node", "status", victim)
		if err != nil || len(s.Nodes) != 1 || unsure(s.Nodes[0]) {
			return fmt.Errorf("%+v, %w", s.Nodes, err)
		}
		return nil
	})
	if err := await.Halt(agentPID(t, victim)); err != nil {
		t.Fatal(err)
	}
	u.pool(t, "another machine", func(s api.PoolStatus) error {
		if s.LastTick.Case == nil {
			return errors.New("the tick ended early: " + s.LastTick.Failed)
		}
		for _, n := range s.LastTick.Case.Nodes {
			if n.ID == victim {
				return fmt.Errorf("%s is still there", victim)
			}
		}
		return sized(4)(s)
	})
	if left := processesOf(filepath.Join(u.data, "local", "machines", victim)); left != nil {
		t.Errorf("left of the machine: %q", left)
	}
}

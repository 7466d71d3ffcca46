package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// step is a write of the autoscaler: the n-th one of that name since the repair was
// ordered, from 0.
type step struct {
	name string
	n    int
}

func (s step) String() string { return fmt.Sprintf("%s #%d", s.name, s.n) }

// guillotine is NATS as one autoscaler reaches it, which ends that at a step: before
// the write arrives, or when it has, before its answer does.
type guillotine struct {
	server string // address
	listen net.Listener
	kill   func() // the autoscaler is dead when it returns
	wg     sync.WaitGroup

	mu    sync.Mutex
	order string         // content of the first write that counts
	count map[string]int // of the writes since, by name
	seen  []step
	at    step
	after bool          // the answer, not the write
	fell  chan struct{} // closed when it is dead; nil: it is not to be
}

func openGuillotine(tb testing.TB, server string) *guillotine {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	g := &guillotine{server: server, listen: l, count: map[string]int{}}
	g.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.connect(c)
		}
	})
	tb.Cleanup(func() {
		l.Close()
		g.wg.Wait() // the autoscaler is dead
	})
	return g
}

func (g *guillotine) connect(client net.Conn) {
	server, err := net.Dial("tcp", g.server)
	if err != nil {
		client.Close()
		return
	}
	requests := &askedFor{names: map[string]string{}}
	g.wg.Go(func() { g.pump(client, server, requests, false) })
	g.wg.Go(func() { g.pump(server, client, requests, true) })
}

// arm counts writes anew, from the order to replace a node on, and has the autoscaler
// killed at one of them.
func (g *guillotine) arm(node string, at step, after bool) (fell <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.order, g.count, g.seen = node+".", map[string]int{}, nil
	g.at, g.after, g.fell = at, after, make(chan struct{})
	return g.fell
}

// steps are the writes since it was armed.
func (g *guillotine) steps() []step {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fell = nil
	return slices.Clone(g.seen)
}

// pump hands on one protocol message after the other.
func (g *guillotine) pump(from, to net.Conn, requests *askedFor, answers bool) {
	defer from.Close()
	defer to.Close()
	in := bufio.NewReader(from)
	for {
		f, err := readFrame(in)
		if err != nil {
			return
		}
		last := false
		switch {
		case answers && f.subject != "":
			last = requests.take(f.subject) != ""
		case f.subject != "":
			if name := writeName(f); name != "" {
				last = g.counted(name, f, requests)
			}
		}
		if last {
			g.kill()
			g.mu.Lock()
			close(g.fell)
			g.fell = nil
			g.mu.Unlock()
			return
		}
		if _, err := to.Write(f.bytes); err != nil {
			return
		}
	}
}

// counted reports whether this write is the last moment, or notes that its answer is.
func (g *guillotine) counted(name string, f frame, requests *askedFor) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.seen) == 0 && !(name == "keep health" && bytes.Contains(f.text(), []byte(g.order))) {
		return false
	}
	s := step{name, g.count[name]}
	g.count[name]++
	g.seen = append(g.seen, s)
	if g.fell == nil || s != g.at {
		return false
	}
	if g.after {
		requests.put(f.reply, name)
	}
	return !g.after
}

// writeName is what a message that changes something is called; empty if it does not.
func writeName(f frame) string {
	d := busDoor{cluster: "ward"}
	switch name := d.name(f); {
	case strings.HasPrefix(f.subject, "$KV."+names.PoolBucket("ward", "default")+".health"):
		return "keep health"
	case strings.HasPrefix(name, "keep"), name == "forget record", name == "cordon":
		return name
	case strings.HasPrefix(f.subject, "weir.ward.local.default."):
		what := f.subject[strings.LastIndex(f.subject, ".")+1:]
		if what == "set_target" || what == "terminate" {
			return what
		}
	}
	return ""
}

// lastMoment is where an autoscaler is killed.
type lastMoment struct {
	step
	after bool
}

func (m lastMoment) String() string {
	if m.after {
		return m.step.String() + ": its answer"
	}
	return m.step.String()
}

// lastMoments are all moments between the order that is kept and the repair that is
// known to have succeeded: before each write, and before the answers of those that
// change the machines. What one write leaves is what the next one finds.
func lastMoments() (all []lastMoment) {
	names := []string{
		"keep health", "keep intent", "keep record chosen", "keep state", "keep intent", "set_target", "keep state", "keep intent",
		"keep record cordoned", "cordon", "keep state", "keep intent", "keep record draining", "keep record drained",
		"keep record terminating", "terminate", "keep record terminating accepted", "keep state", "keep record gone accepted",
		"forget record", "keep health", "keep health", "keep health",
	}
	answers := []string{"set_target", "cordon", "terminate", "forget record"}
	count := map[string]int{}
	for i, name := range names {
		s := step{name, count[name]}
		count[name]++
		if i > 0 {
			all = append(all, lastMoment{s, false})
		}
		if i == 0 || slices.Contains(answers, name) {
			all = append(all, lastMoment{s, true})
		}
	}
	return all
}

// killLanes is how many pools there are of each way, which share the moments.
var killLanes = testsize.Pick(5, 3)

// triedMoments are the moments at which this run kills the autoscaler: with the race
// detector every second one, those that the other way leaves out.
func (w way) triedMoments() (tried []lastMoment) {
	for i, m := range lastMoments() {
		if testsize.Full() || w.hold == (i%2 == 0) {
			tried = append(tried, m)
		}
	}
	return tried
}

// way is how a machine is replaced.
type way struct {
	name, actions string
	hold          bool // the other one comes first
}

func ways() []way {
	return []way{
		{"launch first", "{name: RECREATE, timeout: 60}", true},
		{"terminate first", "{name: RECREATE, timeout: 60, params: {launch_first: false}}", false},
	}
}

// healthIsKilled kills the autoscaler at each write of a replacement, from the order
// that is kept to the repair that has succeeded. Afterwards there is one replacement,
// and all is as it was.
func healthIsKilled(t *testing.T, by way, lane int) {
	w, g := newKillable(t, by.actions)
	if lane == 0 {
		w.recreated(g, nil)
		w.expectListed(g)
	}
	for i, m := range by.triedMoments() {
		if i%killLanes != lane {
			continue
		}
		began := time.Now()
		mark := w.now()
		gap, came := w.recreated(g, &m)
		for tries := 1; !came && tries < 3; tries++ { // a busy machine has made two writes one
			gap, came = w.recreated(g, &m)
		}
		if !came {
			t.Fatalf("%v did not come", m)
		}
		if by.hold {
			w.expectLaunchedFirst(mark)
		}
		if gap > 20*time.Second {
			t.Errorf("%v: nobody held the pool for %v", m, gap)
		}
		if t.Failed() {
			t.Fatalf("after %v", m)
		}
		t.Logf("%-40v held again after %v, all well after %v", m, gap.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	}
}

// healthIsTakenOver kills the autoscaler as it ends the old machine. Another one, with a
// data folder of its own, goes on when the lease is over, and begins nothing anew.
func healthIsTakenOver(t *testing.T) {
	o := wardOptions{actions: recreate, each: 1}
	w := newEmptyWard(t, o)
	g := openGuillotine(t, strings.TrimPrefix(w.bus, "nats://"))
	w.holder = w.newAutoscaler("A", g.listen.Addr().String(), o)
	g.kill = w.holder.kill
	w.holder.start()
	w.isWell("at first", 2)
	other := w.newAutoscaler("B", strings.TrimPrefix(w.bus, "nats://"), o)
	other.start()
	said := other.says(0, logsStandby)
	victim, mark := w.oldest(), w.now()
	dead := g.arm(victim, step{"terminate", 0}, false)
	w.weir("node", "recover", victim)
	<-dead
	from := time.Now()
	w.holder = other
	other.says(said, logsHeld)
	gap := time.Since(from)
	w.isWell("after the takeover", 2)
	w.expectStarted(mark, 1)
	t.Logf("taken over %v after the death", gap.Round(time.Millisecond))
	if gap > time.Minute || w.has(victim) { // the lease lasts 15 s
		t.Errorf("taken over after %v; %s is there: %v", gap, victim, w.has(victim))
	}
}

// healthIsKilledInAWorkflow kills the autoscaler while a workflow runs. All that the
// workflow started ends. It is not run again, as it may have done its work, and it has not
// repaired the node either: the next action of the list does.
func healthIsKilledInAWorkflow(t *testing.T) {
	dir := t.TempDir()
	runs, script, child := filepath.Join(dir, "runs"), filepath.Join(dir, "script"), filepath.Join(dir, "child")
	text := fmt.Sprintf("echo $1 >>%s\nsetsid sh -c 'echo $$ >%[2]s.new; mv %[2]s.new %[2]s; exec sleep 300' &\nexec sleep 300\n", runs, child)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWard(t, wardOptions{
		actions: fmt.Sprintf(`{name: WORKFLOW, timeout: 60, params: {kind: command, argv: [/bin/sh, %s, "{{ attempt }}"]}}, %s`, script, recreate),
		each:    1,
	})
	victim, mark := w.oldest(), w.now()
	w.weir("node", "recover", victim)
	var pid int
	eventually(w, "a child of the workflow in a session of its own", func() error {
		text, err := os.ReadFile(child)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err
	})
	w.holder.kill()
	said := w.holder.mark()
	w.holder.start()
	w.holder.says(said, logsHeld)
	eventually(w, "the end of the workflow's child", func() error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d is there: %v", pid, err)
		}
		return nil
	})
	w.comes(mark, string(api.HealthNodeReplaced), victim)
	w.isWell("after "+victim, 2)
	w.expectStarted(mark, 1)
	var actions []api.RepairAction
	for _, h := range w.of(mark, started, attempted) {
		actions = append(actions, h.shownElsewhere.Action)
	}
	if !slices.Equal(actions, []api.RepairAction{api.ActionWorkflow, api.ActionRecreate}) {
		t.Errorf("actions: %v", actions)
	}
	if ran, err := os.ReadFile(runs); err != nil || strings.Count(string(ran), "\n") != 1 {
		t.Errorf("attempts that ran the workflow: %q, %v, want one", ran, err)
	}
}

// expectListed checks that the moments have every kind of write that a replacement took.
func (w *ward) expectListed(g *guillotine) {
	w.Helper()
	// A write that is lost on a busy machine is made up for by the next one: what was
	// asked may not be in it.
	kind := func(s step) string { return strings.TrimSuffix(s.name, " accepted") }
	for _, s := range g.steps() {
		if !slices.ContainsFunc(lastMoments(), func(m lastMoment) bool { return kind(m.step) == kind(s) }) {
			w.Errorf("%v is none of the moments", s)
		}
	}
}

// newKillable starts a pool with an autoscaler that can be killed at each write.
func newKillable(t *testing.T, actions string) (*ward, *guillotine) {
	t.Helper()
	o := wardOptions{actions: actions, each: 1}
	w := newEmptyWard(t, o)
	g := openGuillotine(t, strings.TrimPrefix(w.bus, "nats://"))
	w.holder = w.newAutoscaler("A", g.listen.Addr().String(), o)
	g.kill = w.holder.kill
	w.holder.start()
	w.isWell("at first", 2)
	return w, g
}

// recreated has the oldest machine replaced, and the autoscaler killed meanwhile and
// started again. It returns how long the pool had no leader. came
// reports whether that moment came.
func (w *ward) recreated(g *guillotine, at *lastMoment) (gap time.Duration, came bool) {
	w.Helper()
	victim, mark := w.oldest(), w.now()
	var dead <-chan struct{}
	if at != nil {
		dead = g.arm(victim, at.step, at.after)
	} else {
		g.arm(victim, step{}, false)
	}
	ctx, cancel := context.WithCancel(w.Context())
	ordered := make(chan error, 1)
	go func() {
		_, err := events.NewClient(w.nc, w.cluster, "default").Order(ctx, api.RepairOrder{Op: api.OpRecover, Nodes: []string{victim}, By: "test"})
		ordered <- err // it may have been killed before it answered
	}()
	if at != nil {
		select {
		case <-dead:
			came = true
			from, said := time.Now(), w.holder.mark()
			w.holder.start()
			w.holder.says(said, logsHeld)
			gap = time.Since(from)
		case <-time.After(patience):
		}
	}
	eventually(w, "the end of "+victim, func() error {
		if w.has(victim) {
			return errors.New("it is there")
		}
		return nil
	})
	cancel()
	<-ordered
	w.isWell("after "+victim, 2)
	w.expectStarted(mark, 1)
	if ended := w.of(mark, "machine ended"); len(ended) != 1 || ended[0].node != victim {
		w.Errorf("ended: %+v, want %s", ended, victim)
	}
	return gap, came
}

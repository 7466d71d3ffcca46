package autoscaler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Points of a tick at which a signal's process changes.
const (
	atSnapshot = "the groups are read"
	atWindows  = "the windows are read"
	atQuestion = "the signal is asked"
	atRaise    = "the groups are raised"
	atRecord   = "the tick is recorded"
)

// fate is a change of a signal's process. meet returns the process that exists at the end. fresh
// starts one at the nth address.
type fate struct {
	name string
	meet func(w *world, old *process, fresh func(n int) *process) *process
}

func fates() []fate {
	return []fate{
		{"a new version is listed", func(w *world, old *process, fresh func(int) *process) *process {
			p := fresh(1)
			w.signals.set("web", p.Endpoint) // the old one is stopped when this revision is followed
			return p
		}},
		{"killed, and told before it is up again", func(w *world, old *process, fresh func(int) *process) *process {
			old.kill()
			w.signals.set("web", ask.Endpoint{Address: old.Address, Down: "the signal is backoff"})
			p := fresh(0)
			w.signals.set("web", p.Endpoint)
			return p
		}},
		{"killed, and told when it is up again", func(w *world, old *process, fresh func(int) *process) *process {
			old.kill()
			p := fresh(0)
			w.signals.set("another app", ask.Endpoint{})
			w.signals.set("web", p.Endpoint)
			return p
		}},
		{"killed, and started elsewhere", func(w *world, old *process, fresh func(int) *process) *process {
			old.kill()
			p := fresh(1)
			w.signals.set("web", p.Endpoint)
			return p
		}},
	}
}

// Whatever happens to a signal's process at any point of a tick, this tick and the next one have a
// response.
func TestNoTickIsLost(t *testing.T) {
	t.Parallel()
	for _, point := range []string{atSnapshot, atWindows, atQuestion, atRaise, atRecord} {
		for _, f := range fates() {
			t.Run(point+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, []int{1}, "web")
				w.asks(sigproto.DefaultApp, 1)
				w.config.Apps[0].Windows = []ask.Window{{Name: "requests", Type: metrics.App, Range: time.Hour, MaxAge: time.Hour}}
				w.write(metrics.Sample{Type: metrics.App, Name: "web,requests", Value: 7}, 0)
				m := &moment{w: w, wanted: point, fate: f}
				w.groups[0].tamper = func(*pools.GroupSnapshot) { m.reach(atSnapshot) }
				w.groups[0].raise = func(context.Context) { m.reach(atRaise) }
				w.store.before = func() { m.reach(atWindows) }
				w.ledger.before = func() { m.reach(atRecord) }
				m.process = m.spawn(0)
				first := m.process
				w.signals.set("web", m.process.Endpoint)

				for i, want := range []string{"v1", "", "v2"} {
					m.prepare(i == 1, 4*(i+2)) // so that the groups are raised
					r := w.tick()
					m.wg.Wait()
					app, _ := appOf(t, r, "web")
					wantOpinion(t, app.Opinion, api.VerdictValue)
					if want != "" && app.Opinion.Version != want {
						t.Errorf("tick %d: version %s, want %s", i, app.Opinion.Version, want)
					}
					if got := w.signals.lastReport(t); got.Revision != w.signals.Listing().Revision {
						t.Errorf("tick %d: revision %d is followed, want %d", i, got.Revision, w.signals.Listing().Revision)
					}
				}
				if m.armed || first == m.process {
					t.Errorf("nothing has happened while %s", point)
				}
			})
		}
	}
}

// moment applies a fate at one point of a tick.
type moment struct {
	w       *world
	wanted  string
	fate    fate
	process *process
	started int
	wg      sync.WaitGroup

	mu    sync.Mutex
	armed bool
	need  int // cpus
}

func (m *moment) prepare(armed bool, need int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armed, m.need = armed, need
}

// reach reports that a tick has reached this point.
func (m *moment) reach(point string) {
	m.mu.Lock()
	happens := point == m.wanted && m.armed
	m.armed = m.armed && !happens
	m.mu.Unlock()
	if !happens {
		return
	}
	m.process = m.fate.meet(m.w, m.process, m.spawn)
}

// spawn starts a process at the nth address of web.
func (m *moment) spawn(n int) *process {
	m.started++
	e := ask.Endpoint{
		Address: sigproto.Address(namespace(m.w.t), "Need", fmt.Sprintf("web~%d", n)), Version: fmt.Sprintf("v%d", m.started),
	}
	e.Group = m.w.processes.add(e.Address)
	dead := make(chan struct{})
	_, kill := m.w.listen(e.Address, func(p peer) {
		p.hello()
		for n := p.length(); n > 0; n = p.length() {
			p.evaluation(n, m.answer(dead))
		}
	})
	return &process{e, func() { kill(); close(dead) }}
}

// answer returns the response of the process. The fate of this point happens meanwhile: the process
// responds after it, or is dead.
func (m *moment) answer(dead <-chan struct{}) string {
	m.mu.Lock()
	text := fmt.Sprintf(`{"Resources":{"cpus":%d}}`, m.need)
	happens := m.wanted == atQuestion && m.armed
	m.armed = m.armed && !happens
	m.mu.Unlock()
	if happens {
		over := make(chan struct{})
		m.wg.Go(func() {
			defer close(over)
			m.process = m.fate.meet(m.w, m.process, m.spawn)
		})
		select {
		case <-dead:
		case <-over:
		}
	}
	return text
}

// A failed signal is waited for only if it responded before, its process seems gone, and the
// directory may list another process.
func TestPatience(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		before   bool // it responded in the tick before
		treat    func(peer)
		frozen   bool
		waits    bool
		verdict  api.Verdict
		expected string
	}{
		{"never heard of", false, func(p peer) { p.body() }, false, false, api.VerdictFailed, "EOF"},
		{"answered before", true, func(p peer) { p.body() }, false, true, api.VerdictFailed, "EOF"},
		{"nobody tells", true, func(p peer) { p.body() }, true, false, api.VerdictFailed, "EOF"},
		{"refuses", true, func(p peer) { p.body(); p.send("\x02"); p.hangUp() }, false, false, api.VerdictFailed, "refused"},
		{"garbage", true, answering("garbage"), false, false, api.VerdictFailed, "protocol error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{1}, "web")
			w.config.Tick = 4 * time.Second // the timeout of a signal is half of it
			w.asks(sigproto.DefaultApp, 1)
			bad := w.misbehave("web", test.treat)
			at := w.signals.Endpoint("web")
			if test.before {
				p := w.spawn("web", 1, "v0", &need{request: cpus(4)})
				w.signals.set("web", p.Endpoint)
				w.tick()
				w.signals.set("web", at)
			}
			if test.frozen {
				w.signals.freeze()
			}
			began := time.Now()
			app, _ := appOf(t, w.tick(), "web")
			wantOpinion(t, app.Opinion, test.verdict, test.expected)
			if took := time.Since(began); (took >= w.config.panel().Timeout()) != test.waits {
				t.Errorf("the tick took %v; waited: want %t", took, test.waits)
			}
			if n := bad.Load(); n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
		})
	}
}

func TestSignalThatStaysDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{1}, "web")
	w.config.Tick = 4 * time.Second
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 4)
	w.tick()
	w.signals.set("web", ask.Endpoint{Down: "the signal is fatal"})
	for i, waits := range []bool{true, false} {
		began := time.Now()
		app, _ := appOf(t, w.tick(), "web")
		wantOpinion(t, app.Opinion, api.VerdictFailed, "the signal is fatal")
		if took := time.Since(began); (took >= w.config.panel().Timeout()) != waits {
			t.Errorf("tick %d took %v; waited: want %t", i, took, waits)
		}
	}
}

// If the processes of a signal die of its windows, only a few of them get requests.
func TestSignalThatDiesOfItsWindows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{1}, "web")
	w.config.Tick = 4 * time.Second
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 4)
	w.tick()
	group := 0
	deadly := func(p peer) {
		p.body()
		w.signals.change(func(endpoints map[string]ask.Endpoint, _ map[string]ask.Candidate) {
			group++
			endpoints["web"] = ask.Endpoint{Address: endpoints["web"].Address, Group: group}
		})
	}
	old := w.signals.Endpoint("web")
	old.Address += "~bad"
	w.signals.set("web", old)
	connections := w.misbehave("web", deadly)
	app, _ := appOf(t, w.tick(), "web")
	wantOpinion(t, app.Opinion, api.VerdictFailed, "EOF")
	// Some may be listed before the death of earlier ones is known. If all got requests, there
	// would be thousands.
	if n := connections.Load(); n < 3 || n > 15 {
		t.Errorf("%d processes were asked, want some %d", n, 3)
	}
}

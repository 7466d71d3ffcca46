package autoscaler

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// patience is the maximum wait of a test.
const patience = await.Patience

// run starts the loop of a world. It returns the result of Run, and a function to end it.
func (w *world) run() (ended <-chan error, stop func()) { return w.runLoop(w.newLoop()) }

func (w *world) runLoop(loop *Loop) (ended <-chan error, stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { done <- loop.Run(ctx) })
	w.t.Cleanup(func() { cancel(); wg.Wait() })
	return done, cancel
}

func TestRunTicks(t *testing.T) {
	w := newWorld(t, []int{1}, "web")
	w.config.Tick = 10 * time.Millisecond
	w.config.Apps[0].Period, w.config.Default.Period = w.config.Tick, w.config.Tick
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 8)
	before := goleak.IgnoreCurrent() // the signals, which outlive the loop
	ended, stop := w.run()
	for range 5 {
		await.Value(t, "a tick", w.ledger.appended)
	}
	stop()
	if err := await.Value(t, "the end", ended); err != nil {
		t.Errorf("Run = %v", err)
	}
	n := w.ledger.len()
	r := w.ledger.last(t)
	wantExplained(t, r)
	if n < 5 || r.Failed != "" || r.Result.Target != 2 || r.Took <= 0 || r.Took > patience {
		t.Errorf("%d ticks, the last: failed %q, target %v, took %v", n, r.Failed, r.Result.Target, r.Took)
	}
	// Each signal's end of the connection ends when the loop has closed its own.
	goleak.VerifyNone(t, before)
	if w.ledger.len() != n {
		t.Error("a tick after the end of Run")
	}
}

func TestRunFinishesTheTickInFlight(t *testing.T) {
	w := newWorld(t, []int{1}, "web")
	w.asks(sigproto.DefaultApp, 1)
	entered, release := make(chan struct{}), make(chan struct{})
	w.serve("web", valueFunc(func(ctx context.Context, _ signals.Input) (resource.Request, error) {
		entered <- struct{}{}
		select {
		case <-release:
			return cpus(8), nil
		case <-ctx.Done():
			return resource.Request{}, ctx.Err()
		}
	}))
	ended, stop := w.run()
	await.Value(t, "the question", entered)
	stop()
	select {
	case err := <-ended:
		t.Fatalf("Run = %v in the middle of a tick", err)
	default:
	}
	close(release)
	if err := await.Value(t, "the end", ended); err != nil {
		t.Errorf("Run = %v", err)
	}
	r := w.ledger.last(t)
	app, _ := appOf(t, r, "web")
	wantOpinion(t, app.Opinion, api.VerdictValue)
	wantOps(t, r, "set target a: 2")
	w.wantTarget(2)
	if n := w.ledger.len(); n != 1 {
		t.Errorf("%d ticks, want 1", n)
	}
}

func TestRunDoesNotBegin(t *testing.T) {
	tests := []struct {
		name   string
		change func(*world)
		want   string
	}{
		{"memory is away", func(w *world) { w.memory.fail = errors.New("no bus") }, "load what the last tick handed on: no bus"},
		{"drains are away", func(w *world) { w.records.fail = errors.New("no bus") }, "load drain records: no bus"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, []int{1})
			test.change(w)
			ended, _ := w.run()
			if err := await.Value(t, "the end", ended); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("Run = %v, want %q", err, test.want)
			}
			w.wantCalls()
		})
	}
}

func TestRunAfterTheEnd(t *testing.T) {
	w := newWorld(t, []int{1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.newLoop().Run(ctx); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if n := w.ledger.len(); n > 0 {
		t.Errorf("%d ticks, want none", n)
	}
}

func FuzzRecall(f *testing.F) {
	f.Add([]byte(`{"state":{"held":[{"app":"web","kind":"cpus","value":4,"at":"2026-03-01T12:00:00Z"}],"joined":["i-1"],"backoffs":[{}]}}`))
	f.Add([]byte(`{"state":{"held":[{"kind":"cpus","value":-1},{"kind":"gold"}],"joined":[null,""]}}`))
	f.Add([]byte(`{"schema":1,"state":{"wanted":4,"groups":{"a":{"last_target":9,"surge":2,"result_unknown":true}}},"intent":{}}`))
	f.Add([]byte(`{"schema":1,"state":{"wanted":-4e300,"groups":{"a":{"last_target":9223372036854775807,"surge":-9223372036854775807}}}}`))
	f.Add([]byte(`{"intent":{}}`))
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := NewLoop(Config{Drain: drain.Config{Threshold: time.Hour}}, World{
			Memory: apply.Encoded{Bytes: &kept{data: data}}, Records: &records{}, Lease: &lease{},
		}, slog.New(slog.DiscardHandler))
		if err := l.Open(t.Context()); err != nil {
			if errors.Is(err, apply.ErrLaterSchema) {
				return
			}
			t.Fatal(err)
		}
		// Every saved state leads to a decision that can be recorded.
		known, _ := resolve.Reconcile(l.state(), time.Unix(0, 0), nil, true)
		c, _ := l.caseOf(time.Unix(0, 0), apply.Reading{Snapshot: &snapshot.Snapshot{}, State: known}, api.Orders{}, nil)
		if _, err := json.Marshal(resolve.Resolve(c).Result()); err != nil {
			t.Error(err)
		}
	})
}

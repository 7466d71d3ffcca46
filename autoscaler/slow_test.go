package autoscaler

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// answersWhen responds with 16 cpus when answer is closed.
func answersWhen(asked chan<- struct{}, answer <-chan struct{}) signals.Signal {
	return valueFunc(func(ctx context.Context, _ signals.Input) (resource.Request, error) {
		asked <- struct{}{}
		select {
		case <-answer:
			return cpus(16), nil
		case <-ctx.Done():
			return resource.Request{}, ctx.Err()
		}
	})
}

// The target follows the response of a signal that needs several ticks, and not before it arrives.
// The other apps are evaluated meanwhile.
func TestTargetFollowsASlowSignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{3}, "web", "mail")
	w.config.Tick = time.Second
	w.config.Apps[0].Period, w.config.Apps[0].TimeLimit = time.Hour, time.Hour
	w.config.Apps[1].Period = time.Minute
	w.asks(sigproto.DefaultApp, 1)
	mail := w.asks("mail", 4)
	w.asks("web", 8)
	w.tick()
	w.wantTarget(3)

	asked, answer := make(chan struct{}, 1), make(chan struct{})
	p := w.spawn("web", 1, "v2", answersWhen(asked, answer))
	w.signals.set("web", p.Endpoint)
	var began time.Time
	for i := range 3 {
		r := w.tick()
		if i == 0 {
			began = r.At
		}
		app, _ := appOf(t, r, "web")
		wantOpinion(t, app.Opinion, api.VerdictValue)
		if app.Opinion.Version != "v1" || app.Opinion.Request != cpus(8) {
			t.Errorf("tick %d: opinion %+v, want the one before", i, app.Opinion)
		}
		if u := r.InProgress; len(u) != 1 || u[0].App != "web" || !u[0].Since.Equal(began) || u[0].Limit != time.Hour {
			t.Errorf("tick %d: under way %+v, want web since %v", i, u, began)
		}
		w.wantTarget(3)
	}
	if n := mail.count(); n != 4 {
		t.Errorf("mail was evaluated %d times, want at each of 4 ticks", n)
	}
	preview, err := w.loop.Preview(t.Context(), api.WhatIf{})
	if err != nil || len(preview.InProgress) != 1 {
		t.Errorf("preview: under way %+v, %v, want web", preview.InProgress, err)
	}
	await.Value(t, "the request", asked)
	close(answer)
	for deadline := time.Now().Add(patience); ; {
		r := w.tick()
		app, _ := appOf(t, r, "web")
		if app.Opinion.Version == "v2" {
			wantOpinion(t, app.Opinion, api.VerdictValue)
			if !app.Opinion.At.Equal(began) || r.InProgress != nil {
				t.Errorf("opinion %+v, under way %+v: want it to be of %v, and nothing", app.Opinion, r.InProgress, began)
			}
			w.wantTarget(5)
			break
		}
		w.wantTarget(3)
		if time.Now().After(deadline) {
			t.Fatalf("opinion %+v, want the answer", app.Opinion)
		}
	}
}

// The end of the loop ends an evaluation in progress.
func TestRunEndsWhatIsUnderWay(t *testing.T) {
	w := newWorld(t, []int{1}, "web")
	w.config.Tick = 10 * time.Millisecond
	w.config.Apps[0].TimeLimit = time.Minute
	w.asks(sigproto.DefaultApp, 1)
	asked := make(chan struct{}, 1)
	w.serve("web", answersWhen(asked, nil))
	before := goleak.IgnoreCurrent() // the signals, which outlive the loop
	ended, stop := w.run()
	await.Value(t, "the request", asked)
	await.Value(t, "a tick", w.ledger.appended)
	stop()
	if err := await.Value(t, "the end", ended); err != nil {
		t.Errorf("Run = %v", err)
	}
	goleak.VerifyNone(t, before)
}

// lateAt is a signal that responds after 45 s at address "late", and otherwise at once.
type lateAt string

func (c lateAt) Evaluate(ctx context.Context, _ sigproto.Evaluation) (sigproto.Response, error) {
	if c == "late" {
		select {
		case <-time.After(45 * time.Second):
		case <-ctx.Done():
			return sigproto.Response{}, context.Cause(ctx)
		}
	}
	return sigproto.Response{}, nil
}

func (lateAt) Close() error { return nil }

// The result of a candidate that takes longer than the loop waits is reported between two ticks, as
// soon as it arrives.
func TestRunReportsASlowCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &clocked{began: time.Now()}
		d.set(sigproto.DefaultApp, ask.Endpoint{Address: "a"})
		scheduler := &nodes{}
		loop := NewLoop(Config{
			Cluster: "here", Pool: "default", Tick: time.Hour,
			Policy:  api.DecisionPolicy{Setpoint: 1, Combine: api.CombineSum},
			Drain:   drain.Config{Threshold: time.Hour},
			Default: ask.Signal{App: sigproto.DefaultApp, Name: "Default", Period: time.Hour, TimeLimit: time.Minute},
		}, World{
			Provider: pools.Static{}, Scheduler: scheduler, Directory: d, Metrics: &memory.Store{},
			Memory: apply.Encoded{Bytes: &kept{}}, Orders: &book{}, Lease: &lease{left: time.Hour}, Cordon: scheduler,
			Records: &records{stored: map[string][]byte{}},
			Ledger:  EncodedLedger{&ledger{appended: make(chan struct{}, 1)}},
			Dial:    func(e ask.Endpoint, _ ask.RequestSpec) ask.Client { return lateAt(e.Address) },
		}, logger(t))
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := loop.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		<-time.After(time.Second)
		synctest.Wait()
		d.take()
		revision := d.setCandidate(sigproto.DefaultApp, ask.Candidate{Endpoint: ask.Endpoint{Address: "late"}})
		<-time.After(50 * time.Second)
		synctest.Wait()
		var got []received
		for _, h := range d.take() {
			if h.Answers > 0 {
				got = append(got, h)
			}
		}
		if diff := cmp.Diff([]received{{46 * time.Second, revision, 1}}, got); diff != "" {
			t.Errorf("reports with answers (-want +got):\n%s", diff)
		}
		stop()
		wg.Wait()
	})
}

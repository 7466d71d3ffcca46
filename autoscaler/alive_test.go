package autoscaler

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// prompt is a signal that responds at once.
type prompt struct{}

func (prompt) Evaluate(context.Context, sigproto.Evaluation) (sigproto.Response, error) {
	return sigproto.Response{}, nil
}

func (prompt) Close() error { return nil }

// clocked is a directory that records the times of revisions, of results and of signs of life.
type clocked struct {
	directory
	began    time.Time
	received []received
	signs    []time.Duration
}

type received struct {
	After    time.Duration
	Revision int
	Answers  int
}

func (c *clocked) Report(r ask.Report) {
	c.directory.mu.Lock()
	defer c.directory.mu.Unlock()
	c.received = append(c.received, received{time.Since(c.began), r.Revision, len(r.Results)})
}

func (c *clocked) Alive() {
	c.directory.mu.Lock()
	defer c.directory.mu.Unlock()
	c.signs = append(c.signs, time.Since(c.began))
}

// takeSigns returns the signs of life since the last call, with the beginning and the end of the
// time that they should cover.
func (c *clocked) takeSigns(from, to time.Duration) []time.Duration {
	c.directory.mu.Lock()
	defer c.directory.mu.Unlock()
	taken := slices.Concat([]time.Duration{from}, c.signs, []time.Duration{to})
	c.signs = nil
	return taken
}

func (c *clocked) take() []received {
	c.directory.mu.Lock()
	defer c.directory.mu.Unlock()
	taken := slices.Clone(c.received)
	c.received = nil
	return taken
}

// A loop that waits for its next tick sends signs of life too.
func TestLoopGivesSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &clocked{began: time.Now()}
		first := d.set(sigproto.DefaultApp, ask.Endpoint{Address: "a"})
		scheduler := &nodes{}
		loop := NewLoop(Config{
			Cluster: "here", Pool: "default", Tick: 70 * time.Second,
			Policy:  api.DecisionPolicy{Setpoint: 1, Combine: api.CombineSum},
			Drain:   drain.Config{Threshold: time.Hour},
			Default: ask.Signal{App: sigproto.DefaultApp, Name: "Default", Period: time.Minute},
		}, World{
			Provider: pools.Static{}, Scheduler: scheduler, Directory: d, Metrics: &memory.Store{},
			Memory: apply.Encoded{Bytes: &kept{}}, Orders: &book{}, Lease: &lease{left: time.Hour}, Cordon: scheduler,
			Records: &records{stored: map[string][]byte{}},
			Ledger:  EncodedLedger{&ledger{appended: make(chan struct{}, 1)}},
			Dial:    func(ask.Endpoint, ask.RequestSpec) ask.Client { return prompt{} },
		}, logger(t))
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := loop.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		advance := func(by time.Duration) {
			<-time.After(by)
			synctest.Wait()
		}
		advance(65 * time.Second)
		if diff := cmp.Diff([]received{{0, first, 1}}, d.take()); diff != "" {
			t.Errorf("reports of the first minute (-want +got):\n%s", diff)
		}
		signs := d.takeSigns(0, 65*time.Second)
		for i := range signs[1:] {
			if gap := signs[i+1] - signs[i]; gap > 5*time.Second {
				t.Errorf("no sign of life from %v to %v, want one every 5 s", signs[i], signs[i+1])
			}
		}
		second := d.set("web", ask.Endpoint{Address: "b"})
		advance(time.Second)
		if diff := cmp.Diff([]received{{65 * time.Second, second, 0}}, d.take()); diff != "" {
			t.Errorf("reports of a new listing (-want +got):\n%s", diff)
		}
		d.setCandidate(sigproto.DefaultApp, ask.Candidate{Endpoint: ask.Endpoint{Address: "c"}})
		advance(time.Second)
		want := []received{{66 * time.Second, second + 1, 0}, {66 * time.Second, second + 1, 1}}
		if diff := cmp.Diff(want, d.take()); diff != "" {
			t.Errorf("reports of a candidate (-want +got):\n%s", diff)
		}
		advance(18 * time.Second)
		want = []received{{70 * time.Second, second + 1, 1}}
		if diff := cmp.Diff(want, d.take()); diff != "" {
			t.Errorf("reports of the next tick (-want +got):\n%s", diff)
		}
		stop()
		wg.Wait()
	})
}

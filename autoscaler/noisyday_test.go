package autoscaler

import (
	"context"
	"hash/fnv"
	"log/slog"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/metrics/memory"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// noise is a signal whose request varies by 5 % around 100 nodes.
type noise struct{ now *time.Time }

func (n noise) Evaluate(context.Context, sigproto.Evaluation) (sigproto.Response, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strconv.FormatInt(n.now.Unix(), 10)))
	cpus := 100 * cpusPerNode * (0.95 + 0.1*float64(h.Sum64()%1000)/1000)
	return sigproto.Response{Verdict: sigproto.VerdictValue, Resources: sigproto.Resources{CPUs: &cpus}}, nil
}

func (noise) Close() error { return nil }

// BenchmarkNoisyDay measures a tick of a minute of 100 nodes under a demand that changes each minute, with the advances of
// the drains between two ticks, and the encoding of the record and of the state. It reports the processor time, which
// includes the provider, the scheduler and the signal in memory.
func BenchmarkNoisyDay(b *testing.B) {
	now := noon
	g := &group{Group: cloud.New(cloud.Config{ID: "a", Max: 200, Target: 100, Join: 20 * time.Second, Leave: time.Minute}, now)}
	scheduler := &nodes{groups: []*group{g}, tasks: map[string]int{}, cordoned: map[string]bool{}, mute: map[string]bool{}}
	size, saved := 0, &kept{}
	l := NewLoop(Config{
		Cluster: "here", Pool: "default", Tick: time.Minute, Drain: drain.Config{Threshold: time.Hour},
		Policy: api.DecisionPolicy{
			Setpoint: 1, Combine: api.CombineSum, Period: time.Minute, Limits: api.TargetLimits{Max: 200, MaxAdd: api.Unlimited, MaxRemove: api.Unlimited},
		},
		Prune:   api.PruneLimits{MaxWeight: 200, MaxTasks: api.Unbounded},
		Default: ask.Signal{App: sigproto.DefaultApp, Name: "Default", Period: time.Minute},
	}, World{
		Provider: cloud.NewProvider(g.Group), Scheduler: scheduler, Cordon: scheduler, Metrics: &memory.Store{}, Memory: apply.Encoded{Bytes: saved}, Orders: &book{},
		Ledger: EncodedLedger{sizes{&size}}, Lease: &lease{left: time.Hour}, Records: &records{stored: map[string][]byte{}},
		Directory: &directory{endpoints: map[string]ask.Endpoint{sigproto.DefaultApp: {Address: "here"}}},
		Dial:      func(ask.Endpoint, ask.RequestSpec) ask.Client { return noise{&now} },
		Now:       func() time.Time { return now },
	}, slog.New(slog.DiscardHandler))
	defer l.Close()
	before := processorTime(b)
	for b.Loop() {
		if err := l.Tick(b.Context(), now); err != nil {
			b.Fatal(err)
		}
		for next := now.Add(time.Minute); now.Before(next); {
			now = now.Add(apply.TendEvery)
			g.Advance(now)
			if now.Before(next) && l.writer.Tending() {
				if err := l.Tend(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.ReportMetric((processorTime(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/tick")
	b.ReportMetric(float64(saved.saves)/float64(b.N), "saves/tick")
}

// processorTime returns the processor time of this process.
func processorTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

package history_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/resource"
)

// world is a real NATS server with the ledger and the summaries of a pool.
type world struct {
	t                 testing.TB
	bus               *bus.Bus
	pool              history.Pool
	ledger, summaries *state.Ledger
}

func newWorld(t testing.TB) *world {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: "test", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	w := &world{t: t, bus: b, pool: history.Pool{JS: b.JetStream(), Cluster: "here", Pool: "web"}}
	bustest.Streams(t, b.JetStream(), "here", 1, "web")
	if w.ledger, err = state.OpenLedger(t.Context(), b.JetStream(), "here", "web"); err == nil {
		w.summaries, err = state.OpenSummaries(t.Context(), b.JetStream(), "here", "web")
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// tick returns the record of a tick of ten nodes whose app needs that many CPUs.
func tick(at time.Time, need float64) api.TickRecord {
	request := resource.Request{}.With(resource.CPUs, need)
	opinion := api.Opinion{Signal: "shop/rps", Verdict: api.VerdictValue, Request: request, At: at}
	c := api.Case{
		Input: api.DecisionInput{
			Now: at, Capacity: api.PoolCapacity{Target: 10, Joined: 10, Totals: resource.Vector{resource.CPUs: 10}},
			Apps: []api.AppInput{{Name: "web", Configured: true, Opinion: opinion}}, Default: opinion,
			Policy: api.DecisionPolicy{Setpoint: 0.5, MarginUp: 0.1, MarginDown: 0.1, Period: time.Minute,
				Limits: api.TargetLimits{Min: 1, Max: 30, MaxAdd: 100, MaxRemove: 100}},
		},
		Groups: []api.GroupTarget{{ID: "blue", Target: 10, Max: 100}}, Limits: api.PruneLimits{MaxWeight: 100, MaxTasks: 100},
		State: api.PoolState{Wanted: new(10.0)},
	}
	o := resolve.Resolve(c)
	result := o.Result()
	r := api.TickRecord{
		Schema: resolve.Schema, At: at, Every: time.Second, Cluster: "here", Pool: "web", Case: &c, Result: &result, State: o.State,
		Detail: &api.TickDetail{Request: o.Decision.Request, Apps: o.Decision.Apps, Distribution: o.Distribution},
	}
	if result.Target != 10 {
		r.Actions = []api.Action{{Op: api.OpSetTarget, Group: "blue", Target: int(result.Target)}}
	}
	return r
}

func (w *world) append(l *state.Ledger, v any) {
	w.t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = l.Append(w.t.Context(), data)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// record writes a tick as the autoscaler does.
func (w *world) record(r api.TickRecord) {
	w.t.Helper()
	w.append(w.ledger, r)
	w.append(w.summaries, history.SummaryOf(r))
}

// now is in the past by less than the slack of a search, and has no fraction.
func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

func (w *world) since(from time.Time) (targets []float64, unreadable int) {
	w.t.Helper()
	unreadable, err := w.pool.Summaries(w.t.Context(), from, time.Time{}, func(s api.Summary) error {
		targets = append(targets, *s.Target)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return targets, unreadable
}

// A search reads summaries, counts those of another version, and makes summaries from records where they are missing.
func TestSummaries(t *testing.T) {
	w, at := newWorld(t), now()
	if got, _ := w.since(at.Add(-time.Hour)); got != nil {
		t.Errorf("an empty pool has the ticks %v", got)
	}
	w.append(w.ledger, tick(at, 5))
	w.append(w.ledger, tick(at.Add(time.Second), 10))
	if got, _ := w.since(at.Add(-time.Hour)); fmt.Sprint(got) != "[10 20]" {
		t.Errorf("targets from records are %v, want [10 20]", got)
	}
	w.append(w.summaries, history.SummaryOf(tick(at.Add(time.Second), 10)))
	w.append(w.summaries, history.SummaryOf(tick(at.Add(2*time.Second), 14)))
	if got, _ := w.since(at.Add(-time.Hour)); fmt.Sprint(got) != "[10 20 28]" {
		t.Errorf("targets from a record and summaries are %v, want [10 20 28]", got)
	}
	w.pool.SummariesOnly = true
	if got, _ := w.since(at.Add(-time.Hour)); fmt.Sprint(got) != "[20 28]" {
		t.Errorf("targets from summaries only are %v, want [20 28]", got)
	}
	w = newWorld(t)
	w.append(w.summaries, history.SummaryOf(tick(at, 6.5)))
	w.append(w.summaries, map[string]int{"schema": 99})
	if got, unreadable := w.since(at.Add(-time.Hour)); fmt.Sprint(got, unreadable) != "[13] 1" {
		t.Errorf("targets from summaries are %v with %d unreadable, want [13] and 1", got, unreadable)
	}
}

// A pool that is older than the slack of a search, and younger than its range, has all its ticks.
func TestSummariesOfAYoungPool(t *testing.T) {
	w, at := newWorld(t), now().Add(-5*time.Minute)
	w.record(tick(at, 5))
	w.record(tick(at.Add(2*time.Minute), 10))
	if got, _ := w.since(at.Add(-time.Hour)); fmt.Sprint(got) != "[10 20]" {
		t.Errorf("targets are %v, want [10 20]", got)
	}
}

// Summaries visits the ticks from the first time until the second, both included.
func TestSummariesOfRange(t *testing.T) {
	w, at := newWorld(t), now()
	for i, need := range []float64{5, 10, 14} { // targets 10, 20, 28
		w.record(tick(at.Add(time.Duration(i)*time.Second), need))
	}
	for _, test := range []struct {
		from, to time.Duration
		want     string
	}{{0, 2 * time.Second, "[10 20 28]"}, {time.Second, time.Second, "[20]"}, {-time.Hour, time.Second - 1, "[10]"}, {3 * time.Second, time.Hour, "[]"}, {time.Second, 0, "[]"}} {
		var got []float64
		_, err := w.pool.Summaries(t.Context(), at.Add(test.from), at.Add(test.to), func(s api.Summary) error {
			got = append(got, *s.Target)
			return nil
		})
		if fmt.Sprint(got) != test.want || err != nil {
			t.Errorf("Summaries(%v, %v) = %v, %v, want %s", test.from, test.to, got, err, test.want)
		}
	}
}

// TickAt finds the last tick that began by then, with its record, and without dry runs.
func TestTickAt(t *testing.T) {
	w, at := newWorld(t), now()
	if _, err := w.pool.TickAt(t.Context(), at); !errors.Is(err, history.ErrNoTick) {
		t.Errorf("TickAt of an empty pool = %v, want ErrNoTick", err)
	}
	w.record(tick(at, 5))
	w.record(tick(at.Add(10*time.Second), 10))
	dry := tick(at.Add(12*time.Second), 15)
	dry.DryRun = true
	w.record(dry)
	w.append(w.summaries, history.SummaryOf(tick(at.Add(20*time.Second), 14)))
	for _, test := range []struct {
		after  time.Duration
		target float64 // 0: no tick
		record bool
	}{{0, 10, true}, {9 * time.Second, 10, true}, {10 * time.Second, 20, true}, {15 * time.Second, 20, true}, {time.Minute, 28, false}, {-time.Second, 0, false}} {
		got, err := w.pool.TickAt(t.Context(), at.Add(test.after))
		switch {
		case test.target == 0:
			if !errors.Is(err, history.ErrNoTick) {
				t.Errorf("TickAt(%v) = %v, want ErrNoTick", test.after, err)
			}
		case err != nil || *got.Target != test.target || (got.Record != nil) != test.record:
			t.Errorf("TickAt(%v) = %+v, %v, want target %v, record %v", test.after, got, err, test.target, test.record)
		case test.record && got.Record.Result.Target != test.target:
			t.Errorf("TickAt(%v) has the record of another tick: target %v", test.after, got.Record.Result.Target)
		}
	}
}

// Summaries become decisions and orders; live messages of all three subjects become events.
func TestEvents(t *testing.T) {
	w, at := newWorld(t), now()
	subjects, feed := history.Subjects("here", "web"), history.NewFeed("here")
	in, err := bus.Receive(w.bus.Conn(), bus.InboxConfig{Events: subjects, Messages: 100, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	w.record(tick(at, 5))
	w.record(tick(at.Add(time.Second), 5))
	fewer := tick(at.Add(2*time.Second), 10)
	fewer.Configuration = &api.ConfigurationChange{Left: []string{"app mail"}, Changed: []api.Change{{What: "scaling_limits.max_capacity", From: "10", To: "1"}}}
	fewer.ConfigurationHold = &api.ConfigurationHold{At: at, Until: at.Add(time.Minute), Why: "app mail left"}
	w.record(fewer)
	w.record(api.TickRecord{Schema: resolve.Schema, Pool: "web", At: at.Add(3 * time.Second), Paused: &api.Note{By: "ann"}})
	after := tick(at.Add(4*time.Second), 10) // its decision is compared with that before the pause
	after.Case.Input.Offset = 2
	after.Orders = []api.Order{
		{Kind: api.OrderOffset, Note: api.Note{By: "bob", Why: "a campaign"}},
		{Kind: api.OrderRemoval, Subject: "i-1", Note: api.Note{By: "ann", Why: "a bad disk"}},
		{Kind: api.OrderRoll, Subject: "blue", Note: api.Note{By: "ann"}},
	}
	w.record(after)
	last := tick(at.Add(5*time.Second), 10)
	last.Case.Input.Offset, last.Orders = 2, after.Orders[:1]
	w.record(last)
	unread := api.Part{Kind: api.PartGroup, Name: "blue", State: api.PartUnknown, Since: at.Add(6 * time.Second), Why: "throttled"}
	marks := api.Part{Kind: api.PartFact, Name: "marks of instances", State: api.PartUnknown, Since: at.Add(7 * time.Second), Why: "denied"}
	gone := api.Part{Kind: api.PartGroup, Name: "blue", State: api.PartGone, Since: at.Add(9 * time.Second)}
	for i, parts := range [][]api.Part{{unread}, {unread, marks}, {unread, marks}, {marks, gone}, {marks}, {}} {
		r := tick(at.Add(time.Duration(6+i)*time.Second), 10)
		r.Case.Input.Offset, r.Orders, r.Parts = 2, after.Orders[:1], parts
		w.record(r)
		if i == 2 {
			w.record(api.TickRecord{Schema: resolve.Schema, Pool: "web", At: r.At.Add(time.Millisecond), Failed: "full"})
		}
	}
	w.publish("weir.here.health.web.events", []api.HealthNotification{{Pool: "web", At: at, HealthFinding: api.HealthFinding{Event: api.HealthNodeUnhealthy, Node: "i-1", Why: "silent"}}})
	w.publish("weir.here.harmonizer.events", []api.AppFinding{{Kind: "missing", App: "web", Index: 2}})
	w.publish("weir.here.harmonizer.events", "no list")
	want := []string{
		"configuration configuration: left: app mail; changed: scaling_limits.max_capacity 10 -> 1; app mail left",
		"decision target: ", "order pause: pause none -> by ann",
		"order pause: pause by ann -> none", "order offset: offset none -> 2 by bob: a campaign",
		"order removal: removal of i-1 none -> by ann: a bad disk", "order roll: roll of blue none -> by ann", "decision target: ",
		"order removal: removal of i-1 by ann: a bad disk -> none", "order roll: roll of blue by ann -> none", "decision target: ",
		"part unknown: group blue could not be read: its last known size counts, it is not changed, and the pool does not shrink: throttled", "decision target: ",
		"part unknown: denied", "decision target: ", "decision target: ", "decision failed: ",
		"part gone: group blue is gone", "decision target: ", "decision target: ", "part known: known again: marks of instances", "decision target: ",
		"health node.unhealthy: node.unhealthy i-1: silent", "harmonizer missing: missing web/2", "error: read findings of the harmonizer",
	}
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	for i := 0; i < len(want); {
		select {
		case m := <-in.Messages():
			live, err := feed.Read(at, m)
			var got []string
			for _, e := range live.Events {
				got = append(got, fmt.Sprintf("%s %s: %s", e.Kind, e.Name, e.Text))
			}
			if err != nil {
				got = append(got, "error: "+err.Error())
			}
			for _, text := range got {
				if i == len(want) || !strings.HasPrefix(text, want[i]) {
					t.Fatalf("event %d is %q, want %q", i, text, want[min(i, len(want)-1)])
				}
				i++
			}
		case <-ctx.Done():
			t.Fatalf("no event %d: want %q", i, want[i])
		}
	}
}

// The past has the findings of the pool and of the harmonizer between the ticks. Those of other pools and unreadable ones
// are omitted. Without the stream of findings the ticks follow all the same.
func TestEventsOfThePastHaveFindings(t *testing.T) {
	w := newWorld(t)
	begin, subjects := time.Now(), []string{"", "weir.here.health.web.events", "weir.here.harmonizer.events"}
	w.record(tick(time.Now(), 10))
	w.publish(subjects[1], []api.HealthNotification{{Pool: "web", At: begin, HealthFinding: api.HealthFinding{Event: api.HealthNodeUnhealthy, Node: "i-1", Why: "silent"}}})
	w.publish("weir.here.health.api.events", []api.HealthNotification{{Pool: "api", At: begin, HealthFinding: api.HealthFinding{Event: api.HealthNodeUnhealthy, Node: "i-2"}}})
	w.publish(subjects[2], "no list")
	w.publish(subjects[2], []api.AppFinding{{Kind: "missing", App: "web", Index: 2}})
	w.flush(4)
	w.record(api.TickRecord{Schema: resolve.Schema, Pool: "web", At: time.Now(), Paused: &api.Note{By: "ann"}})
	read := func() (got []string, unreadable int) {
		unreadable, err := history.NewFeed("here").Events(t.Context(), w.pool, begin.Add(-time.Minute), time.Now(), func(_ time.Time, events []api.Event) error {
			for _, e := range events {
				got = append(got, string(e.Kind)+" "+e.Name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got, unreadable
	}
	if got, unreadable := read(); !slices.Equal(got, []string{"decision target", "health node.unhealthy", "harmonizer missing", "order pause"}) || unreadable != 1 {
		t.Errorf("events %q, %d unreadable", got, unreadable)
	}
	if err := w.pool.JS.DeleteStream(t.Context(), names.FindingsStream("here")); err != nil {
		t.Fatal(err)
	}
	if got, unreadable := read(); !slices.Equal(got, []string{"decision target", "order pause"}) || unreadable != 0 {
		t.Errorf("events without stored findings: %q, %d unreadable", got, unreadable)
	}
}

// flush waits until the stream of findings has that many messages.
func (w *world) flush(messages uint64) {
	w.t.Helper()
	await.True(w.t, "the findings are stored", func() bool {
		s, err := w.pool.JS.Stream(w.t.Context(), names.FindingsStream("here"))
		if err != nil {
			w.t.Fatal(err)
		}
		return s.CachedInfo().State.Msgs == messages
	})
}

func (w *world) publish(subject string, v any) {
	w.t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = w.bus.Conn().Publish(subject, data)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// BenchmarkDayOfSummaries searches a day of a pool of 2000 nodes in 5 groups, with a tick each 10 s and 20 apps:
//
//	search-ms   a search of all 8640 summaries for changes (figure: 1000)
//	summary-KB  one summary as stored, with its headers
//	days        how many days the default bytes keep of such ticks (figure: 90)
func BenchmarkDayOfSummaries(b *testing.B) {
	const ticks = 8640
	w, at := newWorld(b), now().Add(-24*time.Hour)
	r := tick(at, 5)
	r.Snapshot.Joined, r.Snapshot.Fulfilled = 2000, 2000
	for i := range 20 {
		name := fmt.Sprintf("app-%d", i)
		r.Case.Input.Apps = append(r.Case.Input.Apps, api.AppInput{Name: name, Configured: true, Opinion: api.Opinion{Version: "1.14.2", Verdict: api.VerdictValue, Latency: 12345678}})
		r.Detail.Apps = append(r.Detail.Apps, api.ResolvedRequest{App: name, Source: api.FromSignal, Request: resource.Of(resource.Vector{12.5, 48000, 100, 0})})
	}
	for i := range 4 {
		r.Detail.Distribution.Shares = append(r.Detail.Distribution.Shares, api.GroupShare{Group: fmt.Sprintf("us-west-2%c.m5", 'a'+i), Before: 400, After: 400})
	}
	r.Snapshot.Nodes = map[string]int{"idle": 10, "running": 1980, "orphaned": 5, "pending": 3, "terminating": 1, "silent": 1}
	for i := range 10 {
		r.Drains = append(r.Drains, api.Drain{Node: fmt.Sprintf("i-0123456789abcde%02d", i), Group: "us-west-2a.m5", State: api.DrainDraining})
	}
	for i := range ticks {
		r.At = at.Add(time.Duration(i) * 10 * time.Second)
		w.append(w.summaries, history.SummaryOf(r))
	}
	for b.Loop() {
		began, n := time.Now(), 0
		_, err := history.NewFeed("here").Ticks(b.Context(), w.pool, at, time.Time{}, func(history.ComparedTick) error {
			n++
			return nil
		})
		if err != nil || n != ticks {
			b.Fatalf("%d ticks, %v, want %d", n, err, ticks)
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/1e3, "search-ms")
	}
	stream, err := w.pool.JS.Stream(b.Context(), "weir-summaries:here:web")
	if err != nil {
		b.Fatal(err)
	}
	stored := stream.CachedInfo().State
	size := float64(stored.Bytes) / float64(stored.Msgs)
	b.ReportMetric(size/1e3, "summary-KB")
	b.ReportMetric(float64(streams.SummaryBytes)/size/ticks, "days")
}

// Package webtest has what tests of the pages need: a [World] of generated pools that is the source of a server, and a
// [Tab] of Debian's Chromium, with the accessibility checker axe-core.
//
// A World is deterministic: equal fields give equal pools. [World] implements the source of the pages, and can be away.
// The first test of a user downloads Chromium and axe-core, without root. A World may be used concurrently.
package webtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Now returns the present of a World.
func Now() time.Time { return time.Date(2026, 11, 22, 15, 40, 0, 0, time.UTC) }

// Hero is the pool with most of the trouble.
var Hero = web.Name{Cluster: "prod", Pool: "checkout-eu1"}

// ErrAway is the error of a World that is away.
var ErrAway = errors.New("nats: no servers available for connection")

// World is a source of generated pools: the same for the same fields. Some of them are in trouble if Trouble is set.
type World struct {
	Size    int // number of pools
	Every   time.Duration
	Trouble bool
	// Live is the time before Now whose ticks are published to a follower, so that they have the facts of the pools.
	Live time.Duration
	// Crowded gives each pool many events in a short time.
	Crowded bool
	// Large gives each pool 2000 nodes and 200 apps, of which summaries list 40.
	Large bool
	// Past is how long the pools exist; 0: 25 h.
	Past time.Duration

	// Burst is how many events a second each pool has, in place of the usual ones. Two of three are of one application.
	Burst int
	// Unread is the error of each request for output.
	Unread error
	// Markup ends the names of groups, nodes, apps, versions and people, and the reasons.
	Markup string

	mu     sync.Mutex
	away   bool
	follow []func(web.Name, api.Summary)
	end    []context.CancelCauseFunc
}

// SetAway makes the source stop or start to answer.
func (w *World) SetAway(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
	if away {
		for _, end := range w.end {
			end(ErrAway)
		}
		w.end, w.follow = nil, nil
	}
}

func (w *World) answers() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return ErrAway
	}
	return nil
}

var (
	services = []string{
		"checkout", "ads", "audit", "batch", "catalog", "chat", "export", "feed", "fraud", "images", "ledger", "mail", "media",
		"orders", "pay", "render", "reviews", "search", "stream", "users", "video", "web", "zone", "geo", "jobs",
	}
	regions = []string{"eu1", "us1", "ap1", "eu2"}
)

// Names returns the names of the pools.
func (w *World) Names() (out []web.Name) {
	for i := range w.Size {
		out = append(out, web.Name{Cluster: "prod", Pool: services[i%len(services)] + "-" + regions[i/len(services)%len(regions)]})
	}
	return out
}

// trouble is what happens to a pool.
type trouble string

// troubles are the pools in trouble.
var troubles = map[string]trouble{
	"checkout-eu1": "hero", "mail-eu1": "no tick", "ads-us1": "missing", "render-eu2": "backoff", "feed-eu2": "failed", "ads-ap1": "stale",
	"catalog-ap1": "repair", "media-us1": "paused", "batch-us1": "tick failed", "chat-eu1": "starting", "audit-ap1": "draining",
}

func (w *World) trouble(name web.Name) trouble {
	if w.Crowded {
		return "crowded"
	}
	if !w.Trouble {
		return ""
	}
	return troubles[name.Pool]
}

// facts returns the facts of a pool.
func (w *World) facts(name web.Name) condition.Facts {
	p := w.pool(name)
	f := condition.Facts{Lease: condition.Lease{Known: true, Holder: "bootstrap-2"}}
	f.Nodes = condition.UnfitNodes(Now(), w.health(name))
	for i, app := range p.apps {
		n := int(p.need(Now())[i]*2) + 1
		one := condition.Instances{App: app, Expected: n, Running: n}
		if k := w.trouble(name); i == 1 && (k == "hero" || k == "missing" || k == "crowded") {
			one.Missing, one.Running = 5, n-5
		}
		if w.trouble(name) == "hero" && i == 3 || w.trouble(name) == "crowded" && i == 1 {
			one.Flapping, one.Running = 2, one.Running-2
		}
		f.Apps = append(f.Apps, w.troubled(one))
	}
	return f
}

// Pools implements web.Source.
func (w *World) Pools(context.Context) (out []web.Pool, err error) {
	if err := w.answers(); err != nil {
		return nil, err
	}
	for _, name := range w.Names() {
		out = append(out, web.Pool{Name: name, Facts: w.facts(name)})
	}
	return out, nil
}

// Since implements web.Source.
func (w *World) Since(_ context.Context, name web.Name, from time.Time, visit func(api.Summary) error) error {
	if err := w.answers(); err != nil {
		return err
	}
	return w.pool(name).run(func(s api.Summary) error {
		if s.At.Before(from) || s.At.After(Now().Add(-w.Live)) {
			return nil
		}
		return visit(s)
	})
}

// Follow implements web.Source.
func (w *World) Follow(ctx context.Context, visit func(web.Name, api.Summary)) error {
	if err := w.answers(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.mu.Lock()
	w.follow, w.end = append(w.follow, visit), append(w.end, cancel)
	w.mu.Unlock()
	for _, name := range w.Names() {
		err := w.pool(name).run(func(s api.Summary) error {
			if s.At.After(Now().Add(-w.Live)) {
				visit(name, s)
			}
			return ctx.Err()
		})
		if err != nil {
			return context.Cause(ctx)
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// Publish publishes a tick to all followers.
func (w *World) Publish(name web.Name, s api.Summary) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, visit := range w.follow {
		visit(name, s)
	}
}

// Tick implements web.Source.
func (w *World) Tick(_ context.Context, name web.Name, at time.Time) (t history.Tick, err error) {
	if err := w.answers(); err != nil {
		return t, err
	}
	err = w.pool(name).run(func(s api.Summary) error {
		if !s.At.After(at) {
			t.Summary = s
		}
		return nil
	})
	switch {
	case err != nil:
		return t, err
	case t.At.IsZero():
		return t, fmt.Errorf("%w at %v", history.ErrNoTick, at)
	case t.Target == nil:
		return t, nil
	}
	r := record(name, t.Summary)
	return history.Tick{Summary: history.SummaryOf(r), Record: &r}, nil
}

// record returns a record with the inputs of a summary. The rules of the product decide it.
func record(name web.Name, s api.Summary) api.TickRecord {
	limits := api.TargetLimits{Min: s.Limits.Min, Max: *s.Limits.Max, MaxAdd: 100, MaxRemove: 100}
	c := api.Case{
		Input: api.DecisionInput{
			Now: s.At, Capacity: api.PoolCapacity{Target: *s.Before, Joined: s.Joined, Totals: resource.Vector{resource.CPUs: *s.Offered[0]}},
			Policy: api.DecisionPolicy{Setpoint: s.Setpoint, MarginUp: 0.05, MarginDown: 0.1, Period: time.Minute, Limits: limits},
		},
		Limits: api.PruneLimits{MaxWeight: 100, MaxTasks: 100}, State: api.PoolState{Wanted: new(*s.Before)},
	}
	for _, a := range s.Apps {
		o := api.Opinion{Signal: "shop/requests", Version: a.Version, Verdict: api.VerdictValue, At: s.At, Latency: a.Latency,
			Request: resource.Request{}.With(resource.CPUs, *a.Request[0])}
		if a.Verdict != "" {
			o.Verdict, o.Request, o.Why = a.Verdict, resource.Request{}, "no answer within 1s"
		}
		c.Input.Apps = append(c.Input.Apps, api.AppInput{Name: a.Name, Configured: true, Opinion: o})
	}
	for _, g := range s.Groups {
		before := g.Before
		if before == 0 {
			before = g.Target
		}
		c.Groups = append(c.Groups, api.GroupTarget{ID: g.ID, Target: before, Max: 1000})
	}
	o := resolve.Resolve(c)
	result := o.Result()
	r := api.TickRecord{
		Schema: resolve.Schema, At: s.At, Took: 12700 * time.Microsecond, Every: s.Every, Cluster: name.Cluster, Pool: name.Pool, Epoch: 259,
		Case: &c, Result: &result, State: o.State,
		Detail: &api.TickDetail{Request: o.Decision.Request, Apps: o.Decision.Apps, Distribution: o.Distribution},
	}
	r.Snapshot.Joined, r.Snapshot.Fulfilled = s.Joined, s.Exists
	for _, share := range o.Distribution.Shares {
		if share.Before != share.After {
			r.Actions = append(r.Actions, api.Action{Op: api.OpSetTarget, Group: share.Group, Target: share.After, Latency: 28 * time.Millisecond})
		}
	}
	return r
}

package webtest

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/ui/web"
)

// pool is the generator of one pool.
type pool struct {
	name    web.Name
	every   time.Duration
	past    time.Duration
	kind    trouble
	seed    float64 // 0 to 1
	base    float64 // mean capacity
	maximum float64
	groups  []string
	apps    []string
	markup  string // ends names and reasons
}

func (w *World) pool(name web.Name) pool {
	h := fnv.New32a()
	h.Write([]byte(name.String()))
	seed := float64(h.Sum32()%1000) / 1000
	p := pool{name: name, every: w.Every, past: cmp.Or(w.Past, 25*time.Hour), kind: w.trouble(name), seed: seed, base: 6 + math.Round(seed*seed*40), groups: []string{"on-demand", "spot-a"}, markup: w.Markup}
	p.maximum = math.Round(p.base*1.8) + 4
	p.apps = []string{name.Pool + "-api", name.Pool + "-worker"}
	if w.Large {
		p.base, p.maximum, p.apps = 2000, 4000, nil
		for i := range 200 {
			p.apps = append(p.apps, fmt.Sprintf("app-%03d", i))
		}
		return p
	}
	if p.kind == "hero" {
		p.base, p.maximum = 27, 40
		p.groups, p.apps = []string{"on-demand", "spot-a", "spot-b"}, []string{"checkout-api", "cart", "payments", "receipts"}
	}
	for _, names := range [][]string{p.groups, p.apps} {
		for i := range names {
			names[i] += w.Markup
		}
	}
	return p
}

// weights are the parts of the apps.
var weights = []float64{0.45, 0.29, 0.16, 0.1}

// need returns the CPUs that each app needs at that time: a day with its night, and noise.
func (p pool) need(at time.Time) (out []float64) {
	hour := float64(at.Sub(Now()))/float64(time.Hour) + 15.67
	day := 0.72 + 0.34*math.Sin((hour-10+p.seed*2)/24*2*math.Pi)
	if p.kind == "hero" {
		if day = 0.62 + 0.38*math.Sin((hour-9.5)/24*2*math.Pi); at.After(Now().Add(-150 * time.Minute)) {
			day *= 1 + 0.75*at.Sub(Now().Add(-150*time.Minute)).Hours()/2.5
		}
	}
	sum := 0.0
	for i := range p.apps {
		sum += weights[i%len(weights)]
	}
	for i := range p.apps {
		noise := 1 + 0.012*math.Sin(hour*97+float64(i)*3+p.seed*9)
		out = append(out, p.base*4*0.8*day*noise*weights[i%len(weights)]/sum)
	}
	return out
}

// run calls visit with all ticks.
func (p pool) run(visit func(api.Summary) error) error {
	target := math.Round(p.base * 0.8)
	joined := target
	end := Now()
	if p.kind == "no tick" {
		end = Now().Add(-21 * time.Minute)
	}
	offset := time.Duration(p.seed*float64(min(p.every, time.Minute))) / 2
	for at := Now().Add(-p.past).Add(offset); at.Before(end); at = at.Add(p.every) {
		s := p.tick(at, &target, joined)
		if err := visit(s); err != nil {
			return err
		}
		joined += math.Max(-1, math.Min(target-joined, 2))
	}
	return nil
}

// ago returns the time before Now.
func ago(at time.Time) time.Duration { return Now().Sub(at) }

func within(at time.Time, from, to time.Duration) bool { return ago(at) <= from && ago(at) > to }

func (p pool) tick(at time.Time, target *float64, joined float64) api.Summary {
	s := api.Summary{Schema: history.SummarySchema, Pool: p.name.Pool, At: at.Add(123456 * time.Nanosecond), Took: 12700 * time.Microsecond, Every: p.every}
	switch {
	case p.kind == "hero" && within(at, 20*time.Hour, 18*time.Hour+35*time.Minute):
		s.Paused = &api.Note{By: "ana@ops" + p.markup, Why: "moving the database" + p.markup}
		return s
	case p.kind == "paused" && within(at, time.Hour, -time.Hour):
		s.Paused = &api.Note{By: "kim@ops" + p.markup, Why: "network work" + p.markup}
		return s
	case p.kind == "crowded" && int(ago(at).Seconds())%170 < 40:
		s.Failed = "list the instances of group spot-a: RequestLimitExceeded" + p.markup
		return s
	case p.kind == "tick failed" && within(at, 9*time.Minute, -time.Hour):
		s.Failed = "list the instances of group spot-a: RequestLimitExceeded" + p.markup
		return s
	}
	if p.kind == "draining" && within(at, 12*time.Minute, -time.Hour) {
		joined = *target
	}
	if p.kind == "starting" && within(at, 8*time.Minute, -time.Hour) {
		joined = *target - 2
	}
	p.decide(&s, target, joined)
	p.parts(&s)
	p.events(&s, at)
	return s
}

// decide sets the target as the rules do, in short.
func (p pool) decide(s *api.Summary, target *float64, joined float64) {
	total, needs := 0.0, p.need(s.At)
	for i, x := range needs {
		s.Apps = append(s.Apps, api.AppSummaryTick{Name: p.apps[i], Request: api.RequestSummary{new(math.Round(x*10) / 10)}, Version: "v1.4.3" + p.markup,
			Latency: time.Duration(2000+400*math.Sin(x*50)) * time.Microsecond})
		total += x
	}
	s.Apps = s.Apps[:min(len(s.Apps), 40)]
	before, wanted := *target, total/4/0.8
	if wanted < before*1.05 && wanted > before*0.88 {
		wanted = before
	}
	if s.Rule, s.Why = api.RuleTarget, fmt.Sprintf("apps: %.1f of %.0f cpus needed (%.0f %%), at 80 %% that is %.2f",
		total, joined*4, total/joined/4*100, wanted); wanted > p.maximum {
		s.Rule, s.Why = api.RuleLimits, fmt.Sprintf("%.1f needed, max_capacity allows %.0f", wanted, p.maximum)
		s.Holds = append(s.Holds, api.Hold{Direction: api.DirectionUp, Kind: api.HoldLimit, Name: "max_capacity", Why: s.Why})
	}
	*target = math.Ceil(math.Min(wanted, p.maximum))
	s.Before, s.Target, s.Unlimited, s.Wanted = new(before), new(*target), new(math.Round(wanted*10)/10), new(*target)
	s.Joined, s.Exists, s.Setpoint, s.Disruption, s.DisruptionLimit = joined, joined, 0.8, new(2), 3
	if joined < *target {
		s.Boot = &api.BootTimes{P50: 70 * time.Second, P95: 90 * time.Second}
	}
	s.Limits, s.Offered = &api.LimitsSummary{Min: math.Round(p.base * 0.3), Max: new(p.maximum)}, &api.RequestSummary{new(joined * 4)}
	s.Request = &api.RequestSummary{new(math.Round(total*10) / 10)}
}

// parts divides the capacity between the groups.
func (p pool) parts(s *api.Summary) {
	k := float64(len(p.groups))
	s.Cost = &api.Cost{Currency: "USD"}
	for i, id := range p.groups {
		part := func(x float64) int { return int(math.Floor((x + k - 1 - float64(i)) / k)) }
		g := api.GroupSummary{ID: id, Target: part(*s.Target), Exists: float64(part(s.Joined))}
		if hour := 0.192 * g.Exists; hour > 0 {
			s.Cost.Parts = append(s.Cost.Parts, api.CostPart{Group: id, Market: "on-demand m5.xlarge in eu-west-1a", Cause: api.CostServing, Machines: g.Exists, PerHour: new(hour)})
			s.Cost.PerHour += hour
		}
		if b := part(*s.Before); b != g.Target {
			g.Before = b
			s.Actions = append(s.Actions, api.ActionSummary{Op: api.OpSetTarget, Group: id, Target: g.Target, Calls: 1})
		}
		s.Groups = append(s.Groups, g)
		if missing := g.Target - part(s.Joined); missing > 0 {
			for m := range missing {
				s.Nodes = append(s.Nodes, api.UnsteadyNode{ID: fmt.Sprintf("i-%s-%d", id, part(s.Joined)+m), Group: id, State: api.UnsteadyStarting})
			}
		} else if missing < 0 {
			for m := range -missing {
				s.Nodes = append(s.Nodes, api.UnsteadyNode{ID: fmt.Sprintf("i-%s-%d", id, g.Target+m), Group: id, State: api.UnsteadyDraining})
			}
		}
	}
}

// events adds the trouble of the pool.
func (p pool) events(s *api.Summary, at time.Time) {
	bad := func(i int, v api.Verdict, why string) {
		s.Apps[i].Verdict, s.Apps[i].Source, s.Apps[i].Latency = v, api.FromDefault, time.Second
		s.Holds = append(s.Holds, api.Hold{Direction: api.DirectionUp, Kind: api.HoldIgnorance, Name: s.Apps[i].Name, Why: why})
	}
	backoff := func(i int) {
		s.Groups[i].Backoff = true
		s.Holds = append(s.Holds, api.Hold{Direction: api.DirectionUp, Kind: api.HoldInGroup, Name: s.Groups[i].ID, Why: "group " + s.Groups[i].ID + ": InsufficientInstanceCapacity"})
	}
	repair := api.UnsteadyNode{ID: repaired + p.markup, Group: "spot-a" + p.markup, State: api.UnsteadyRepair}
	switch p.kind {
	case "backoff":
		if within(at, 90*time.Minute, -time.Hour) {
			backoff(1)
		}
	case "failed":
		if within(at, 36*time.Minute, -time.Hour) {
			bad(0, api.VerdictFailed, "app "+s.Apps[0].Name+": no answer within 1s")
		}
	case "stale":
		if within(at, 15*time.Minute, -time.Hour) {
			bad(1, api.VerdictStale, "app "+s.Apps[1].Name+": newest point is 6m old")
		}
	case "repair":
		if within(at, 24*time.Minute, -time.Hour) {
			s.Nodes = append(s.Nodes, repair)
		}
	case "draining":
		if within(at, 12*time.Minute, -time.Hour) {
			s.Nodes = append(s.Nodes, api.UnsteadyNode{ID: "i-77", Group: "spot-a", State: api.UnsteadyDraining})
			s.Rotation = &api.RotationSummary{Left: 5, Replaced: 4, Trials: 1, Closes: Now().Add(80 * time.Minute), Text: "roll of spot-a: 5 of 9 machines are left" + p.markup}
		}
	case "crowded":
		s.Apps[0].Version = fmt.Sprintf("build-5c41e2cde1cb%d", int(ago(at).Minutes()))
		switch seconds := int(ago(at).Seconds()); {
		case seconds%60 < 20:
			bad(0, api.VerdictStale, "app "+s.Apps[0].Name+": newest point is 6m old")
		case seconds%60 < 40:
			bad(0, api.VerdictFailed, "app "+s.Apps[0].Name+": no answer within 1s")
			backoff(1)
		default:
			s.Nodes = append(s.Nodes, repair, api.UnsteadyNode{ID: "i-2e9204", Group: "spot-a", State: api.UnsteadySilent})
		}
		if int(ago(at).Minutes())%2 == 0 {
			s.Limits.Max = new(p.maximum * 4)
		}
	case "hero":
		p.hero(s, at, bad, backoff, repair)
	}
}

// hero adds what happened to the pool of the pictures.
func (p pool) hero(s *api.Summary, at time.Time, bad func(int, api.Verdict, string), backoff func(int), repair api.UnsteadyNode) {
	if within(at, 15*time.Hour+10*time.Minute, 14*time.Hour+5*time.Minute) {
		backoff(1)
	}
	if ago(at) > 16*time.Hour+30*time.Minute {
		s.Apps[0].Version = "v1.4.2" + p.markup
	}
	if ago(at) <= 2*time.Hour+40*time.Minute {
		s.Apps[0].Version = "v1.5.0" + p.markup
	} else if ago(at) <= 6*time.Hour {
		more := *s.Apps[0].Request[0] * 1.12
		s.Apps[0].Shadow = &api.ShadowSummary{Version: "v1.5.0" + p.markup, Request: api.RequestSummary{&more}, Compared: true}
	}
	switch {
	case within(at, 12*time.Hour+20*time.Minute, 11*time.Hour+50*time.Minute):
		bad(1, api.VerdictFailed, "app cart: exit status 1"+p.markup)
	case within(at, 9*time.Hour+35*time.Minute, 9*time.Hour+20*time.Minute):
		bad(2, api.VerdictStale, "app payments: newest point is 6m old")
	case within(at, 13*time.Hour, 8*time.Hour):
		s.Apps[3].Verdict = api.VerdictNoOpinion
	}
	if within(at, 8*time.Hour+25*time.Minute, 7*time.Hour+40*time.Minute) {
		s.Nodes = append(s.Nodes, repair)
	}
	if within(at, 5*time.Hour, 3*time.Hour+25*time.Minute) {
		s.Offset = 6
	}
}

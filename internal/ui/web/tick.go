package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
	"github.com/weirkeeper/weirkeeper/resource"
)

// signalRow is the response of one signal.
type signalRow struct {
	App, Verdict, Class, Swatch string
	Request, Latency, Signal    string
	Share                       []byte
	Why                         string
}

// ruleRow is the effect of one rule.
type ruleRow struct {
	Rule, Result, Why string
	Changed           bool
	Plot              []byte
}

// groupRow is the request for one group, and the answer.
type groupRow struct {
	Group, Swatch, Before, After string
	Facts                        []string // boot times, and why the group does not grow
	Requests                     []string
	Latency                      string
}

// again is the form "Decide again" and its result.
type again struct {
	Maximum, Setpoint string
	Result            string // a sentence; empty: the form was not sent
	Problem           string
}

// tickView is the page of one decision.
type tickView struct {
	frame
	Headline, Sub string
	At            time.Time
	Time          string
	Sentence      string // empty: the message has it all
	PoolHref      string
	Before, After string // addresses of the ticks around
	Figures       []figure
	Message       string // why a decision or a part is missing
	Leaving       string
	Signals       []signalRow
	Kind          string
	FallHead      []byte
	Rules         []ruleRow
	Groups        []groupRow
	Again         *again
	Problems      []string
	Holds         []api.Hold
}

// serveTick serves the page of a decision.
func (s *Server) serveTick(w http.ResponseWriter, r *http.Request) {
	name := Name{r.PathValue("cluster"), r.PathValue("pool")}
	at, err := time.Parse(time.RFC3339, r.PathValue("at"))
	if err != nil {
		s.problem(w, r, http.StatusBadRequest, "This address is not valid", "The time of a tick has the form 2026-01-02T03:10:00.000Z.")
		return
	}
	if !s.store.read(name, func(*series.Ring, known) {}) {
		s.noPool(w, r, name, errNoPool)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), deadline)
	defer cancel()
	// The address has milliseconds, and a tick has nanoseconds.
	t, err := s.source.Tick(ctx, name, at.Add(time.Millisecond-1))
	switch {
	case errors.Is(err, history.ErrNoTick):
		s.problem(w, r, http.StatusNotFound, "No tick is recorded there", "The pool has no tick at this time. Open the pool, and choose a time of a plot.")
		return
	case err != nil:
		s.log.Warn("the source of the pages is away", "err", err)
		s.problem(w, r, http.StatusServiceUnavailable, "The ledger does not answer", "This tick cannot be read now: "+decide.OneLine(err.Error())+". Try again later.")
		return
	}
	s.page(w, r, http.StatusOK, tickPage(s.tick(name, t.Summary, t.Record, r.URL.Query())))
}

// tick returns the view of a decision.
func (s *Server) tick(name Name, t api.Summary, r *api.TickRecord, q url.Values) tickView {
	at := t.At.UTC()
	v := tickView{PoolHref: name.href() + "?at=" + at.Format(stamp), Problems: t.Problems, Holds: t.Holds}
	s.store.read(name, func(ring *series.Ring, _ known) {
		before, after := ring.Around(at.Truncate(time.Millisecond))
		if !before.IsZero() {
			v.Before = name.tickHref(before)
		}
		if !after.IsZero() {
			v.After = name.tickHref(after)
		}
	})
	v.Headline, v.Sentence = headline(t), condition.Sentence(t.At, &t, condition.Facts{})
	v.At, v.Time = at, at.Format("Mon 2 Jan 15:04:05 UTC")
	v.Sub = "· took " + plot.Number(float64(t.Took)/1e6) + " ms"
	if r != nil && r.Epoch > 0 {
		v.Sub += fmt.Sprintf(", lease epoch %d", r.Epoch)
	}
	v.frame = s.frame(v.Headline, []crumb{{name.Pool, name.href()}, {at.Format(time.TimeOnly), ""}})
	switch {
	case t.Paused != nil:
		v.Sentence, v.Message = "", "The pool was paused "+t.Paused.Text()+". A paused tick has no decision."
	case t.Failed != "":
		v.Sentence, v.Message = "", "The tick ended without a decision: "+t.Failed
	case r == nil || r.Case == nil || r.Result == nil || r.Detail == nil:
		v.Message = "The ledger no longer has the full record of this tick. This page shows its summary."
	}
	v.fill(t, r, q)
	return v
}

// headline returns the answer of the page.
func headline(t api.Summary) string {
	switch {
	case t.Paused != nil:
		return "Paused"
	case t.Failed != "":
		return "No decision"
	case t.Target == nil:
		return "Tick"
	}
	before, after, _ := t.Ordered()
	if before != after {
		return "Target " + plot.Number(before) + " → " + plot.Number(after)
	}
	return "Target stays " + plot.Number(after)
}

// fill adds what the summary and the record have.
func (v *tickView) fill(t api.Summary, r *api.TickRecord, q url.Values) {
	if t.Target == nil {
		return
	}
	kind := resource.CPUs
	for _, k := range resource.Kinds() {
		if t.Request != nil && t.Request[kind] == nil && t.Request[k] != nil {
			kind = k
		}
	}
	v.Kind = kind.String()
	var offered *float64
	if t.Offered != nil {
		offered = t.Offered[kind]
	}
	v.Figures = []figure{{"joined", "joined", plot.Number(t.Joined), ""}}
	if offered != nil {
		v.Figures = append(v.Figures, figure{"offered", "offered", plot.Number(*offered), v.Kind})
	}
	if t.Request != nil && t.Request[kind] != nil {
		v.Figures = append(v.Figures, figure{"requested", "requested", plot.Number(*t.Request[kind]), v.Kind})
	}
	if t.Leaving > 0 && t.Before != nil {
		v.Leaving = fmt.Sprintf("%s, of which %s leave", plot.Number(*t.Before), prose.Count(t.Leaving, "node"))
	}
	v.signals(t, r, kind, offered)
	v.groups(t, r)
	if r != nil && r.Case != nil && r.Result != nil {
		v.rules(*r, q)
		return
	}
	v.Rules = []ruleRow{{Rule: string(t.Rule), Why: t.Why, Changed: t.Before != nil && *t.Before != *t.Target, Result: plot.Number(*t.Target)}}
}

// signals adds the responses.
func (v *tickView) signals(t api.Summary, r *api.TickRecord, kind resource.Kind, offered *float64) {
	opinions := map[string]api.Opinion{}
	if r != nil && r.Case != nil {
		for _, a := range r.Case.Input.Apps {
			opinions[a.Name] = a.Opinion
			for _, advisor := range a.Raise {
				opinions[advisor.Name] = advisor.Opinion
			}
		}
	}
	add := func(a api.AppSummaryTick, colour string) {
		severity := series.Fine
		a.Raise = nil // each has its own row
		for _, x := range series.Reduce(api.Summary{At: t.At, Target: t.Target, Apps: []api.AppSummaryTick{a}}, condition.Facts{}).Values {
			if x.Quantity == series.Verdict {
				severity = series.Severity(x.X)
			}
		}
		one := signalRow{App: a.Name, Verdict: verdictText(severity, true), Swatch: colour, Request: "–", Latency: "–", Signal: a.Version}
		one.Class = [...]string{"", "", "warn", "bad"}[int(severity)]
		if x := a.Request[kind]; x != nil {
			one.Request = plot.Number(*x)
			if offered != nil && *offered > 0 {
				one.Share = plot.Share(colour, *x / *offered)
			}
		}
		if a.Latency > 0 {
			one.Latency = plot.Number(float64(a.Latency)/1e6) + " ms"
		}
		if o, ok := opinions[a.Name]; ok {
			one.Signal, one.Why = o.Signal+" "+o.Version, o.Why
			if one.Why == "" {
				one.Why = o.Explanation
			}
		}
		switch a.Source {
		case api.FromDefault:
			one.Verdict += "; default signal stands in"
		case api.FromHeld:
			one.Verdict += "; last value counts"
		}
		v.Signals = append(v.Signals, one)
	}
	for _, a := range t.Apps {
		colour := appClass(rank(t.Apps, a, kind))
		add(a, colour)
		for _, advisor := range a.Raise {
			add(advisor, colour)
		}
	}
}

// rank returns how many apps request more, so that an app has the colour of its plot.
func rank(apps []api.AppSummaryTick, a api.AppSummaryTick, kind resource.Kind) (n int) {
	size := func(a api.AppSummaryTick) float64 {
		if x := a.Request[kind]; x != nil {
			return *x
		}
		return 0
	}
	for _, other := range apps {
		if size(other) > size(a) || size(other) == size(a) && other.Name < a.Name {
			n++
		}
	}
	return n
}

// groups adds the targets of the groups, and the requests to the provider.
func (v *tickView) groups(t api.Summary, r *api.TickRecord) {
	for i, g := range t.Groups {
		one := groupRow{Group: g.ID, Swatch: groupClass(i), After: strconv.Itoa(g.Target)}
		if g.Before != 0 && g.Before != g.Target {
			one.Before = strconv.Itoa(g.Before)
		}
		if r != nil {
			one.Facts = r.State.Groups[g.ID].Boots.Lines("")
			if r.Case != nil && r.Case.Stuck[g.ID] != "" {
				one.Facts = append(one.Facts, r.Case.Stuck[g.ID])
			}
			if m, known := explain.Market(*r, g.ID); known {
				one.Facts = append(one.Facts, m.Text())
			}
		}
		if g.Backoff {
			one.Requests = append(one.Requests, "in backoff")
		}
		var took time.Duration
		for _, a := range actions(t, r) {
			if a.Group != g.ID {
				continue
			}
			took += a.Latency
			if len(one.Requests) < 6 {
				one.Requests = append(one.Requests, actionText(a))
			}
		}
		if took > 0 {
			one.Latency = plot.Number(float64(took)/1e6) + " ms"
		}
		v.Groups = append(v.Groups, one)
	}
}

// actions returns the requests to the provider: of the record, or else as the summary counts them.
func actions(t api.Summary, r *api.TickRecord) (out []api.Action) {
	if r != nil {
		return r.Actions
	}
	for _, a := range t.Actions {
		one := api.Action{Op: a.Op, Group: a.Group, Target: a.Target, Error: a.Error}
		if a.Calls > 1 {
			one.What = fmt.Sprintf("%d requests", a.Calls)
		}
		out = append(out, one)
	}
	return out
}

// actionText describes a request and its result.
func actionText(a api.Action) string {
	text := string(a.Op)
	switch {
	case a.Op == api.OpSetTarget:
		text += " " + strconv.Itoa(a.Target)
	case a.Node != "":
		text += " " + a.Node
	case a.What != "":
		text += " " + a.What
	}
	if a.Error != "" {
		return text + ": " + a.Error
	}
	return text + ": ok"
}

// rules adds the waterfall, and the decision with edited limits.
func (v *tickView) rules(r api.TickRecord, q url.Values) {
	in := r.Case.Input
	var edited *float64
	v.Again = newAgain(*r.Case, q)
	if v.Again.Result == "" && v.Again.Problem == "" && (q.Has("max_capacity") || q.Has("setpoint")) {
		target := v.Again.decide(*r.Case, q)
		edited = &target
		v.Again.Result = "With these limits the target would be " + plot.Number(target) + ", not " + plot.Number(r.Result.Target) + "."
		if plot.Number(target) == plot.Number(r.Result.Target) {
			v.Again.Result = "With these limits the target would be " + plot.Number(target) + " too."
		}
	}
	limits := map[string]float64{"min": in.Policy.Limits.Min}
	if in.Policy.Limits.Max < api.Unlimited {
		limits["max"] = in.Policy.Limits.Max
	}
	var steps []plot.Step
	for _, s := range r.Result.Steps {
		steps = append(steps, plot.Step{Before: s.Before, After: s.After})
	}
	if len(steps) == 0 {
		return
	}
	more := []float64{}
	if edited != nil {
		more = append(more, *edited)
	}
	fall := plot.NewWaterfall(steps, more...)
	v.FallHead = fall.Head(steps[0].Before, limits, []string{"min", "max"})
	for i, s := range r.Result.Steps {
		one := ruleRow{Rule: string(s.Rule), Why: s.Why, Changed: s.Before != s.After, Result: plot.Number(s.After)}
		if one.Changed {
			one.Result = plot.Number(s.Before) + " → " + plot.Number(s.After)
		}
		var ring *float64
		if i == len(steps)-1 {
			ring = edited
		}
		one.Plot = fall.Row(steps[i], limits, ring)
		v.Rules = append(v.Rules, one)
	}
}

// newAgain returns the form with the values of the case, or of the query. It checks the query.
func newAgain(c api.Case, q url.Values) *again {
	a := &again{Setpoint: strconv.FormatFloat(c.Input.Policy.Setpoint, 'g', 6, 64)}
	if most := c.Input.Policy.Limits.Max; most < api.Unlimited {
		a.Maximum = strconv.FormatFloat(most, 'g', 10, 64)
	}
	if q.Has("max_capacity") {
		a.Maximum = series.Cut(q.Get("max_capacity"), 20)
		if x, err := strconv.ParseFloat(a.Maximum, 64); a.Maximum != "" && (err != nil || !(x >= 0) || math.IsInf(x, 0)) {
			a.Problem = "max_capacity must be a number of at least 0."
		}
	}
	if q.Has("setpoint") {
		a.Setpoint = series.Cut(q.Get("setpoint"), 20)
		if x, err := strconv.ParseFloat(a.Setpoint, 64); err != nil || !(x > 0 && x <= 1) {
			a.Problem = "setpoint must be a number above 0 and at most 1."
		}
	}
	return a
}

// decide returns the target of the recorded case with the edited values. The form has checked them.
func (a *again) decide(c api.Case, q url.Values) float64 {
	if x, err := strconv.ParseFloat(a.Maximum, 64); err == nil {
		c.Input.Policy.Limits.Max = x
		c.Input.Policy.Limits.Min = min(c.Input.Policy.Limits.Min, x)
	}
	if x, err := strconv.ParseFloat(a.Setpoint, 64); err == nil {
		c.Input.Policy.Setpoint = x
	}
	o := resolve.Resolve(c)
	return o.Result().Target
}

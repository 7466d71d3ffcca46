package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// resolve settles who speaks for each app, in order of name, and returns what
// the next tick must remember. now is the rules' own time; standby is the default
// signal's opinion, checked.
func resolve(in Input, now time.Time, standby Opinion) ([]Resolved, []Held) {
	apps := slices.SortedFunc(slices.Values(in.Apps), func(a, b App) int { return cmp.Compare(a.Name, b.Name) })
	said := recall(in.State.Held, now)
	resolved := make([]Resolved, len(apps))
	var held []Held
	for i, app := range apps {
		own := checked(app.Opinion)
		var past memory
		if app.Configured {
			past = said[app.Name].since(now.Add(-app.HoldFor))
			past.learn(own, now.Add(-age(own, in.Now)))
		}
		resolved[i] = settle(app, own, standby, past)
		held = append(held, past.held(app.Name)...)
	}
	return resolved, held
}

// age is how long ago an opinion was given. One without a time is of now.
func age(o Opinion, now time.Time) time.Duration {
	if o.At.IsZero() {
		return 0
	}
	return max(0, now.Round(0).Sub(o.At.Round(0)))
}

// checked returns o such that only a valid request counts: a hostile one has
// failed, and one without any kind is no opinion.
func checked(o Opinion) Opinion {
	switch o.Verdict {
	case Value:
		if err := o.Request.Validate(); err != nil {
			o.Verdict, o.Why = Failed, err.Error()
		} else if o.Request.IsEmpty() {
			o.Verdict = NoOpinion
		}
	case NoOpinion, Stale, Failed:
	case Unasked:
		o.Verdict, o.Why = Failed, cmp.Or(o.Why, "was not asked")
	default:
		o.Verdict, o.Why = Failed, fmt.Sprintf("gave the verdict %q", o.Verdict)
	}
	if o.Verdict != Value {
		o.Request = resource.Request{}
	}
	return o
}

// settle says who speaks for one app. own and standby are checked.
func settle(app App, own, standby Opinion, past memory) Resolved {
	r := Resolved{App: app.Name}
	fallback := standby.Verdict == Value
	lost := own.Verdict == Failed || own.Verdict == Stale
	switch {
	case !app.Configured && fallback:
		r.Source, r.Request, r.Why = FromDefault, standby.Request, "has no signal of its own"
	case !app.Configured:
		r.Source, r.Why = FromNobody, "has no signal of its own, and the default signal "+account(standby)
	case lost && fallback:
		r.Source, r.Request, r.Why = FromDefault, standby.Request, "its signal "+account(own)
	case lost && !past.empty():
		r.Source, r.Why = FromHeld, "its signal "+account(own)+", and the default signal "+account(standby)
		r.Request, r.Held = past.fill(resource.Request{})
	case lost:
		r.Source, r.Why = FromNobody, "its signal "+account(own)+", and the default signal "+account(standby)
	case own.Verdict == NoOpinion && past.empty():
		r.Source, r.Why = FromNobody, "its signal "+account(own)
	case own.Verdict == NoOpinion:
		r.Source, r.Why = FromHeld, "its signal "+account(own)
		r.Request, r.Held = past.fill(resource.Request{})
	default:
		r.Source, r.Why = FromSignal, OneLine(own.Why)
		r.Request, r.Held = past.fill(own.Request)
	}
	// An app that has no opinion just now, and had one not long ago, has not
	// lost its voice: that is a hold, and no stand-in.
	r.StandIn = r.Source == FromNobody || app.Configured && lost
	if r.Source == FromSignal || r.Source == FromHeld {
		var over string
		if r.Request, over = app.bound(r.Request); over != "" {
			r.Why = strings.TrimPrefix(r.Why+"; "+over, "; ")
		}
	}
	return r
}

// bound returns r with no more of each kind than MaxRequest, and what was cut; empty if
// nothing was.
func (a App) bound(r resource.Request) (bounded resource.Request, over string) {
	var cut []string
	for _, k := range resource.Kinds() {
		x, ok := r.Get(k)
		if most, limited := a.MaxRequest.Get(k); ok && limited && x > most {
			r = r.With(k, most)
			cut = append(cut, fmt.Sprintf("%s is above max_request, %s counts", amount(k, x), amount(k, most)))
		}
	}
	return r, strings.Join(cut, ", ")
}

// account tells how a signal came to give no request.
func account(o Opinion) string {
	text := "failed"
	switch o.Verdict {
	case NoOpinion:
		text = "has no opinion"
	case Stale:
		text = "is stale"
	}
	if o.Why == "" {
		return text
	}
	return text + " (" + OneLine(o.Why) + ")"
}

// opinionsWhy tells who speaks for each app.
func opinionsWhy(apps []Resolved, standby Opinion) string {
	if len(apps) == 0 {
		if standby.Verdict != Value {
			return "no apps, and the default signal " + account(standby)
		}
		return "no apps: the default signal speaks for the pool, " + amounts(standby.Request)
	}
	lines := make([]string, len(apps))
	for i, r := range apps {
		lines[i] = r.App + ": " + r.explain()
	}
	return strings.Join(lines, "; ")
}

// explain tells who speaks for r, and what is asked.
func (r Resolved) explain() string {
	switch r.Source {
	case FromSignal:
		text := amounts(r.Request)
		if r.Held != nil {
			text += ", of which " + list(kindNames(r.Held)) + " from an earlier answer"
		}
		if r.Why != "" {
			text += " (" + r.Why + ")"
		}
		return text
	case FromDefault:
		return r.Why + ": the default signal speaks for it"
	case FromHeld:
		return r.Why + ": its last answer holds, " + amounts(r.Request)
	default:
		return r.Why + ": nobody speaks for it"
	}
}

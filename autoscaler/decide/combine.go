package decide

import (
	"fmt"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// combined is the request to the whole pool.
type combined struct {
	request resource.Request
	own     resource.Request // without the default signal's request
	names   []string         // apps whose own requests count, in order
	// byDefault is set if the default signal's request counts too.
	byDefault bool
	how       api.Combine
	left      string            // out of the request, for people
	all       *resource.Request // with what is left out; nil: nothing is
}

// combine joins the requests of the apps, which are sorted by name, into one, with or without advice. The default signal's
// request is for the whole pool. If it counts, the larger of it and the others counts, kind by
// kind, never the sum.
func combine(apps []api.ResolvedRequest, standby api.Opinion, how api.Combine, advised bool) combined {
	c := combined{how: how, byDefault: len(apps) == 0 && standby.Verdict == api.VerdictValue}
	for _, r := range apps {
		var own resource.Request
		switch r.Source {
		case api.FromSignal, api.FromHeld:
			own = r.Request
		case api.FromDefault:
			c.byDefault = true
		}
		if advised {
			own = raised(own, r.Raise)
		}
		if !own.IsEmpty() {
			c.names = append(c.names, r.App)
			c.own = merge(c.own, own, how)
		}
	}
	c.request = c.own
	if c.byDefault {
		c.request = merge(c.own, standby.Request, api.CombineMax)
	}
	return c
}

// merge joins two requests kind by kind. If only one of them has a kind, its amount counts.
func merge(a, b resource.Request, how api.Combine) resource.Request {
	for _, k := range resource.Kinds() {
		y, ok := b.Get(k)
		if !ok {
			continue
		}
		x, named := a.Get(k)
		switch {
		case !named:
			a = a.With(k, y)
		case how == api.CombineMax:
			a = a.With(k, max(x, y))
		default:
			a = a.With(k, bounded(x+y))
		}
	}
	return a
}

// why returns the reasons for the request.
func (c combined) why() string {
	text := "no signal requests anything"
	switch len(c.names) {
	case 0:
		if c.byDefault {
			text = "the default signal alone: " + amounts(c.request) + c.left
		}
		return text
	case 1:
		text = c.names[0] + " alone: " + amounts(c.own)
	default:
		word := "sum"
		if c.how == api.CombineMax {
			word = "maximum"
		}
		text = fmt.Sprintf("%s of %s: %s", word, list(c.names), amounts(c.own))
	}
	if c.byDefault {
		text += "; or the default signal where it requests more: " + amounts(c.request)
	}
	return text + c.left
}

// appNames returns the names of the apps whose requests count, as the subject of a sentence.
func (c combined) appNames() string {
	if c.byDefault {
		return list(append(c.names[:len(c.names):len(c.names)], "the default signal"))
	}
	return list(c.names)
}

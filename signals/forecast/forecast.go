package forecast

import (
	"fmt"
	"math"
	"time"
)

// Answer is the forecast at one time.
type Answer struct {
	On       bool    // there is a forecast
	Now      float64 // the load that a reactive signal requests: the highest of ten minutes; NaN: unknown
	Capacity float64 // if On: the capacity for the launch horizon, at least Now
	Why      string  // one line
}

// Forecast returns the capacity that serves the load of the launch horizon, by the season that Judge chose. It depends on its
// arguments alone.
func (r Rule) Forecast(w Window, now time.Time, j Judgement) Answer {
	g := r.fold(w, now, r.horizon()+1)
	a := Answer{Now: math.NaN(), Why: j.Why}
	n := len(g.y)
	if n == 0 {
		a.Why = "no complete slot"
		return a
	}
	a.Now = g.reach[n-1]
	if since, stuck := g.stuck(); stuck {
		a.Why += fmt.Sprintf("; the metric has been %s since %s, which counts as missing", number(g.raw[since]), g.at(since).In(r.Zone).Format("Jan 2 15:04"))
	}
	if !j.On {
		return a
	}
	last := n - 1 - (n-1)%inHour // the quantiles are those of the begin of the hour
	f := r.run(g, j.season, last)
	top := f[len(f)-1]
	if !known(top.load) {
		a.Why = "no forecast for this time of the day yet"
		return a
	}
	a.On, a.Capacity = true, max(top.load, r.Headroom*a.Now)
	at := g.at(n + top.at - 1).In(r.Zone).Format("15:04")
	a.Why = fmt.Sprintf("season of %s: %s expected at %s, %s covers %.0f%%; %s", j.Season, number(top.mean), at, number(top.load), 100*r.quantile(), a.Why)
	return a
}

// number formats a load with at least three digits.
func number(x float64) string {
	if math.Abs(x) >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

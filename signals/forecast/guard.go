package forecast

import (
	"fmt"
	"math"
	"time"
)

const (
	judged    = 7    // days that the guard plays
	leastDays = 3    // days with forecasts that a judgement needs
	halfLife  = 3.0  // days: then a day has half of the weight
	gain      = 0.95 // cost of a season over that of each substitute, at most
	wins      = 0.7  // part of the days on which a season must cost less than both
	fails     = 1.3  // cost on the youngest day, over that of the cheaper substitute
)

// Score is what a fleet would have cost on the judged days, in percent of the load. Younger days weigh more.
type Score struct {
	Name     string  // "headroom", "margin", or a season
	Headroom float64 // over the load
	Cost     float64 // Unused + waiting costs x Waiting
	Unused   float64
	Waiting  float64
	Won      int // of a season: days on which it cost less than the best headroom, and less than the margin
}

// Judgement is the result of the guard, valid until the next boundary.
type Judgement struct {
	At     time.Time
	On     bool
	Season string  // the best season; empty: not known
	Days   int     // judged days, on which that season had forecasts
	Best   float64 // the headroom with the lowest cost; 0: not known
	Why    string  // why the forecast is on or off
	Scores []Score // headrooms, the margin, and the seasons; empty: not known

	season season
	ratio  float64 // cost over that of the cheapest substitute
}

// Judge plays the seven days before Boundary(now) as fleets. The forecast is on if the best season costs at most 95 % of the
// best constant headroom and of a margin without a season, and less than both on 70 % of the days. A season
// must know more than a margin: a margin helps with noise too. Without the vote of days, one spike decides a week. A season that
// cost 30 % more than a substitute on the latest day is off: it is over.
func (r Rule) Judge(w Window, now time.Time) Judgement {
	at := Boundary(now)
	g := r.fold(w, at, r.horizon()+1)
	from := r.begin(g)
	p := played{rule: r}
	for _, h := range r.headrooms() {
		p.add(g.play(scaled(g.reach[from:], h), from, r.horizon()), "headroom", h)
	}
	p.substitutes = len(p.fleets) + 1
	foreseen := make([]days, len(seasons))
	for i, s := range seasons {
		targets, forecasts := r.targets(g, s, from)
		p.add(g.play(targets, from, r.horizon()), s.name, r.Headroom)
		foreseen[i] = g.foresee(forecasts, from)
	}
	j := Judgement{}
	for i, on := range foreseen[1:] {
		o := Judgement{Days: on.count(), Why: fmt.Sprintf("needs %d days of back-test, has %d", leastDays, on.count())}
		if o.Days >= leastDays {
			o = p.judge(seasons[i+1], p.substitutes+i, on)
		}
		if i == 0 || o.better(j) {
			j = o
		}
	}
	if j.Season == "" {
		j.Why += g.lack()
	}
	j.At = at
	return j
}

// lack returns what the window of a judgement without a season lacks, beside its length; empty: nothing.
func (g grid) lack() string {
	week := g.y[max(0, len(g.y)-judged*inDay):]
	n := 0
	for _, y := range week {
		if known(y) {
			n++
		}
	}
	switch {
	case g.zero():
		return "; the load is 0 in the whole window"
	case 2*n < len(week):
		return fmt.Sprintf("; the latest %.1f days have a load in %d of %d slots of %.0f minutes", float64(len(week))/float64(inDay), n, len(week), Step.Minutes())
	}
	return ""
}

// better reports whether a judgement of a season is preferred over another's.
func (j Judgement) better(o Judgement) bool {
	switch {
	case j.On != o.On:
		return j.On
	case j.Season == "" || o.Season == "":
		return j.Season != "" || o.Season == "" && j.Days > o.Days
	}
	return j.ratio < o.ratio
}

// begin returns the first slot whose end matters to the judged days.
func (r Rule) begin(g grid) int { return max(0, len(g.y)-judged*inDay-r.horizon()-1) }

// targets returns the capacity that a season requests at the end of each slot from from on, and its forecasts.
func (r Rule) targets(g grid, s season, from int) (targets []float64, forecasts []result) {
	forecasts = r.run(g, s, from)
	targets = scaled(g.reach[from:], r.Headroom)
	for k, f := range forecasts {
		if f.load > targets[k] {
			targets[k] = f.load
		}
	}
	return targets, forecasts
}

// Slot is five minutes of a fleet.
type Slot struct {
	At       time.Time
	Load     float64 // NaN: unknown
	Capacity float64 // NaN: unknown
}

// Replay returns the fleet of the judged days, with the forecasts of the best season.
func (r Rule) Replay(w Window, j Judgement) []Slot {
	g := r.fold(w, j.At, r.horizon()+1)
	from := r.begin(g)
	if j.Season == "" || from == len(g.y) {
		return nil
	}
	targets, _ := r.targets(g, j.season, from)
	var slots []Slot
	for i := from + r.horizon() + 1; i < len(g.y); i++ {
		slots = append(slots, Slot{g.at(i), g.raw[i], serving(targets[:i-from], r.horizon())})
	}
	return slots
}

func scaled(all []float64, factor float64) []float64 {
	targets := make([]float64, len(all))
	for i, x := range all {
		targets[i] = factor * x
	}
	return targets
}

// played has the fleets of the judged days: constant headrooms, then the margin, then the seasons.
type played struct {
	rule        Rule
	fleets      []fleet
	substitutes int // the number of fleets without a season
}

func (p *played) add(f fleet, name string, headroom float64) {
	f.Name, f.Headroom = name, headroom
	p.fleets = append(p.fleets, f)
}

// judge compares a season with its substitutes on some days.
func (p *played) judge(s season, at int, on days) Judgement {
	c := p.rule.WaitingCosts
	for i := range p.fleets {
		p.fleets[i].rate(on, c)
	}
	flat, own := &p.fleets[p.substitutes-1], &p.fleets[at]
	best := &p.fleets[0]
	for i := range p.substitutes - 1 {
		if p.fleets[i].Cost < best.Cost {
			best = &p.fleets[i]
		}
	}
	for i := p.substitutes; i < len(p.fleets); i++ {
		p.fleets[i].won(best, flat, on, c)
	}
	j := Judgement{Season: s.name, Days: on.count(), Best: best.Headroom, season: s}
	for i := range p.fleets {
		j.Scores = append(j.Scores, p.fleets[i].Score)
	}
	j.ratio = own.Cost / min(best.Cost, flat.Cost)
	votes := float64(own.Won) >= wins*float64(j.Days)
	failed := own.failed(best, flat, on, c)
	j.On = j.ratio <= gain && votes && !failed
	switch {
	case math.IsNaN(own.Cost):
		j.Season, j.Why = "", "no load in the back-test"
	case j.On:
		j.Why = fmt.Sprintf("won %d of %d days, cost %.1f%% against %.1f%%", own.Won, j.Days, own.Cost, min(best.Cost, flat.Cost))
	case best.Cost <= flat.Cost && j.ratio > gain:
		j.Why = fmt.Sprintf("a headroom of %.2f would do as well (cost %.1f%% against %.1f%%)", best.Headroom, best.Cost, own.Cost)
	case j.ratio > gain:
		j.Why = fmt.Sprintf("a margin without a season would do as well (cost %.1f%% against %.1f%%)", flat.Cost, own.Cost)
	case failed && votes:
		j.Why = "cost too much on the latest day"
	default:
		j.Why = fmt.Sprintf("won %d of %d days", own.Won, j.Days)
	}
	return j
}

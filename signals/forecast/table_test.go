package forecast

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// outcome is what fleets with and without a forecast did in a world.
type outcome struct {
	react, best, always, guarded Score
	on                           float64 // part of the time
	days                         string  // a sign for each day: # on, + a part of it, . off, ? too young
}

// begin returns the first slot that counts.
func (w world) begin() int {
	switch n := len(w.y); {
	case n >= 28*inDay:
		return 14 * inDay
	case n > 7*inDay:
		return 7 * inDay
	default:
		return 0
	}
}

// follow plays the whole world with the answers of the shipped rule: Judge at each boundary on 28 days, then the forecasts of
// the chosen season.
func (w world) follow(r Rule) outcome {
	n := r.horizon()
	g := grid{y: w.y, raw: w.y, reach: reach(w.y)}
	react := scaled(g.reach, r.Headroom)
	always, guarded := scaled(g.reach, r.Headroom), scaled(g.reach, r.Headroom)
	on, slots, begin := 0, 0, w.begin()
	signs := make([]int, len(w.y)/inDay+1)
	for i := 0; i < len(w.y); {
		now := w.at(i + 1)
		end := min(len(w.y), i+int(Boundary(now).Add(judgeEvery).Sub(now)/Step))
		window := w.window(i + 1)
		j := r.Judge(window, now)
		if j.Season != "" {
			whole := w.window(end)
			last := w.at(end)
			seen := r.fold(whole, last, n+1)
			for k, f := range r.run(seen, j.season, len(seen.y)-(end-i)) {
				if f.load > always[i+k] {
					always[i+k] = f.load
				}
				if j.On && f.load > guarded[i+k] {
					guarded[i+k] = f.load
				}
			}
		}
		for k := i; k < end; k++ {
			if j.On {
				signs[day(k)]++
			}
			if k >= begin {
				if slots++; j.On {
					on++
				}
			}
		}
		i = end
	}
	o := outcome{on: float64(on) / float64(slots)}
	o.react, o.always, o.guarded = w.score(react, begin, r), w.score(always, begin, r), w.score(guarded, begin, r)
	o.best = o.react
	for _, h := range r.headrooms() {
		if s := w.score(scaled(g.reach, h), begin, r); s.Cost < o.best.Cost {
			o.best, o.best.Headroom = s, h
		}
	}
	for d, count := range signs[:len(w.y)/inDay] {
		switch {
		case count == inDay:
			o.days += "#"
		case count > 0:
			o.days += "+"
		default:
			o.days += "."
		}
		_ = d
	}
	return o
}

// score plays the targets over all days from begin; each counts the same.
func (w world) score(targets []float64, begin int, r Rule) (s Score) {
	n := r.horizon()
	var load, worst, lack float64
	y := withoutStuck(w.y)
	hour := 0
	var hourLoad, hourLack float64
	for j := max(begin, n+1); j < len(y); j++ {
		capacity := math.Inf(1)
		for _, x := range targets[j-1-n : j] {
			capacity = min(capacity, x)
		}
		if h := j / inHour; h != hour {
			if hourLoad > 0 {
				worst = max(worst, hourLack/hourLoad)
			}
			hour, hourLoad, hourLack = h, 0, 0
		}
		if !known(y[j]) || !known(capacity) {
			continue
		}
		load += y[j]
		s.Unused += max(0, capacity-y[j])
		lack = max(0, y[j]-capacity)
		s.Waiting += lack
		hourLoad, hourLack = hourLoad+y[j], hourLack+lack
	}
	s.Unused, s.Waiting = 100*s.Unused/load, 100*s.Waiting/load
	s.Cost = s.Unused + r.WaitingCosts*s.Waiting
	s.Headroom = r.Headroom
	s.Won = int(math.Round(100 * worst))
	return s
}

func ruleFor(w world, launch time.Duration) Rule {
	return Rule{Launch: launch, Zone: w.zone, WaitingCosts: 20, Headroom: 1.1, LikeWeekend: w.like}
}

func TestProbe(t *testing.T) {
	var all []world
	for _, name := range []string{"taxi", "asg_cpu", "elb", "tweets_amzn", "grok_asg", "rds_cpu", "ec2_net"} {
		all = append(all, recorded(t, name))
	}
	all = append(all, worlds()...)
	for _, launch := range []time.Duration{5 * time.Minute, 15 * time.Minute} {
		for _, w := range all {
			o := w.follow(ruleFor(w, launch))
			show := func(s Score) string { return fmt.Sprintf("%.1f (%.3g, %d)", s.Cost, s.Waiting, s.Won) }
			fmt.Printf("%-12s %4v | %s | %.1f (%.2f) | %.1f | %s %.0f %% ratio %.3f\n%s\n", w.name, launch, show(o.react), o.best.Cost, o.best.Headroom, o.always.Cost, show(o.guarded), 100*o.on, o.guarded.Cost/o.react.Cost, o.days)
		}
	}
}

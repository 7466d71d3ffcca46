package config

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
)

// timeLimitProblems checks the time limit of a signal with that period; path is the signal's. shortTimeLimits checks the
// lower bound of longer ticks.
func timeLimitProblems(d document, path string, limit, period time.Duration) Problems {
	if limit == 0 && !d.given(path+".time_limit") {
		return nil
	}
	least := ask.Config{}.Timeout() // of the shortest tick
	if limit < least || limit > period {
		return Problems{d.problem(path+".time_limit", fmt.Sprintf("is %v: want %v to the period of the signal, %v", limit, least, period))}
	}
	return nil
}

// shortTimeLimits returns the time limits below the default. The default depends on the tick, and so on both files.
func shortTimeLimits(s Service, p Pool) Problems {
	tick := Autoscaler(s, p).Tick
	least := ask.Config{Tick: tick}.Timeout()
	var ps Problems
	check := func(d document, path string, limit time.Duration) {
		if limit != 0 && limit < least {
			ps = append(ps, d.problem(path+".time_limit", fmt.Sprintf(
				"is %v: want at least %v, the default at a tick of %v; remove it, or choose a shorter autoscaling.tick", limit, least, tick)))
		}
	}
	check(s.document, "autoscale_signal", s.AutoscaleSig.TimeLimit)
	for i, signal := range p.Signals {
		check(p.document, p.signalPath(i), signal.TimeLimit)
	}
	return ps
}

package nodehealth

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

// round is a periodic observation.
type round struct {
	name  string
	modes []api.DetectionType
	every time.Duration
	run   func(ctx context.Context) error
}

// due returns when round k begins, from the start. A jitter of up to a tenth of the interval keeps
// pools out of step.
func (r round) due(pool string, k uint64) time.Duration {
	if k == 0 {
		return 0
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%s/%d", pool, r.name, k)
	jitter := time.Duration(float64(r.every) / 10 * float64(h.Sum32()) / math.MaxUint32)
	return time.Duration(k)*r.every + jitter
}

// rounds runs the rounds and holds their status by name. The Loop's goroutine owns the table.
type rounds struct {
	*shared
	announcer *announcer
	table     map[string]*roundCount
}

// roundCount is the status of a round, with its totals.
type roundCount struct {
	api.HealthRounds
	took   time.Duration
	ended  uint64
	failed uint64
}

func (t *rounds) start(ctx context.Context, r round) {
	t.table[r.name] = &roundCount{HealthRounds: api.HealthRounds{Round: r.name, Modes: r.modes, Interval: r.every}}
	t.mail.Go(func() { t.repeat(ctx, r) })
}

// repeat runs one round at a time. The deadline of each is the start of the next. If a round runs
// beyond its deadline, repeat skips and counts the rounds that it delays.
func (t *rounds) repeat(ctx context.Context, r round) {
	began := t.world.Now()
	since := func() time.Duration { return t.world.Now().Sub(began) }
	for k := uint64(0); retry.Pause(ctx, r.due(t.config.Pool, k)-since()); {
		at := since()
		last := api.HealthRounds{Lag: max(0, at-r.due(t.config.Pool, k))}
		try, cancel := context.WithTimeout(ctx, r.due(t.config.Pool, k+1)-at)
		err := r.run(try)
		cancel()
		last.Took = since() - at
		for k++; r.due(t.config.Pool, k) < since(); k++ {
			last.Missed++
		}
		if t.mail.notify(ctx, func(now time.Time) { t.ended(now, r.name, last, err) }) != nil {
			return
		}
	}
}

func (t *rounds) ended(now time.Time, name string, last api.HealthRounds, err error) {
	s := t.table[name]
	s.At, s.Took, s.Lag = now, last.Took, last.Lag
	s.Missed += last.Missed
	s.ended++
	s.took += last.Took
	if last.Missed > 0 {
		why := fmt.Sprintf("%s: %s skipped because one took %v", name, prose.Count(int(last.Missed), "round"), last.Took.Round(time.Millisecond))
		t.log.Warn("rounds skipped", "round", name, "missed", last.Missed, "took", last.Took)
		t.announcer.queueNotification(api.HealthNotification{At: now, HealthFinding: api.HealthFinding{Event: api.HealthMissedEvent, Why: why}})
	}
	text := ""
	if err != nil {
		text = prose.Clip(err.Error(), api.MaxWhy)
		s.failed++
	}
	if text != s.Err && text != "" {
		t.log.Warn("round failed", "round", name, "err", err)
	}
	s.Err = text
}

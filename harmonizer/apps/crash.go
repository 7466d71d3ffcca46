package apps

import (
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// backoff implements the rules exit_crashed, flapping, give_up and decay for one index. The
// first FlappingDeath crashes within FlappingTimeout of each other are answered at once. Later
// ones are answered after a delay that doubles, and after more than GiveupCrashNumber not at
// all. The count restarts after the index ran for FlappingTimeout.
type backoff struct {
	crashes   int // in a row
	crashedAt instant
	healthy   instant // running since; 0: unknown
	restart   instant // no start before this time
	givenUp   bool
}

// crashed counts a crash of an app's index and returns the rule that answers it.
func (b *backoff) crashed(cfg *Config, now instant, app string, index int) api.AppRule {
	if now > b.calmSince().add(cfg.FlappingTimeout) {
		b.crashes = 0
	}
	most := *cfg.GiveupCrashNumber
	if most == 0 {
		most = math.MaxInt
	}
	return b.failed(cfg, now, app, index, most)
}

// failed counts a crash, and returns the rule that answers it. After more than that many, the index is given up.
func (b *backoff) failed(cfg *Config, now instant, app string, index, most int) api.AppRule {
	b.crashes++
	b.crashedAt, b.healthy, b.restart, b.givenUp = now, 0, 0, false
	switch {
	case b.crashes > most:
		b.givenUp = true
		return api.AppRuleGiveUp
	case b.crashes > *cfg.FlappingDeath:
		b.restart = now.add(b.delay(cfg, app, index))
		return api.AppRuleFlapping
	}
	return api.AppRuleExitCrashed
}

// calmSince returns since when the index could run without a crash. A restart delay does not
// count as running.
func (b *backoff) calmSince() instant {
	since := b.crashedAt
	for _, later := range [...]instant{b.restart, b.healthy} {
		if later != 0 {
			since = max(since, later)
		}
	}
	return since
}

func (b *backoff) delay(cfg *Config, app string, index int) time.Duration {
	return cfg.restartDelay(b.crashes-*cfg.FlappingDeath) + noise(*cfg.DelayTimeNoise, app, index, b.crashes)
}

// decay implements the rule of that name: the crashes of a running index count until
// FlappingTimeout after the last one. It returns that time.
func (b *backoff) decay(cfg *Config, now instant) instant {
	if b.healthy == 0 {
		b.healthy = now
	}
	until := max(b.healthy, b.crashedAt).add(cfg.FlappingTimeout)
	if until <= now {
		b.crashes = 0
	}
	return until
}

// runsOn reports whether a copy that runs on the index is likely to keep running. True if the
// index did not crash, or crashed at most FlappingDeath times and then ran for DropletLost. An
// index that crashes repeatedly also runs briefly after each restart, so its crashes must have
// decayed first.
func (b *backoff) runsOn(cfg *Config, now instant) bool {
	if b.crashes == 0 {
		return true
	}
	return b.crashes <= *cfg.FlappingDeath && b.healthy != 0 && max(b.healthy, b.crashedAt).add(cfg.DropletLost) <= now
}

func (b *backoff) retry() { b.crashes, b.restart, b.givenUp = 0, 0, false }

// merge adds what another harmonizer counted: the larger number of crashes and the later
// times. Only a down index can be given up.
func (b *backoff) merge(o backoff, down bool) {
	if b.crashes == 0 || o.crashedAt > b.crashedAt {
		b.crashedAt = o.crashedAt
	}
	b.crashes = max(b.crashes, o.crashes)
	b.restart = max(b.restart, o.restart)
	b.givenUp = b.givenUp || down && o.givenUp
}

// restartDelay returns the delay after crash number FlappingDeath+over. It doubles with each
// crash.
func (c Config) restartDelay(over int) time.Duration {
	d := c.MinRestartDelay
	for range over - 1 {
		if d >= c.MaxRestartDelay/2 {
			return c.MaxRestartDelay
		}
		d *= 2
	}
	return d
}

// noise returns a duration from -most to most, so that copies that crashed together do not
// start together. It is a hash of the index and its crashes, so it is deterministic.
func noise(most time.Duration, app string, index, crashes int) time.Duration {
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(app))
	h.Write([]byte{0, byte(index), byte(index >> 8), byte(index >> 16), byte(crashes), byte(crashes >> 8)})
	return time.Duration(h.Sum64()%uint64(2*most+1)) - most
}

// perTable bounds the crash table of an app. It keeps the newest.
const perTable = 100

// crash is a Crash with its instant.
type crash struct {
	api.AppCrash
	at instant
}

// crashTable has the newest crashes of an app, oldest first.
type crashTable []crash

// add appends a line, or completes the existing line of the same copy.
func (t *crashTable) add(c api.AppCrash, now instant) {
	i := slices.IndexFunc(*t, func(o crash) bool { return o.Instance == c.Instance })
	if i >= 0 {
		o := &(*t)[i]
		if c.Since != 0 {
			o.Since = c.Since
		}
		if c.Status != nil || c.Description != "" {
			o.Status, o.Description = c.Status, c.Description
		}
		return
	}
	if len(*t) == perTable {
		*t = slices.Delete(*t, 0, 1)
	}
	*t = append(*t, crash{c, now})
}

func (t *crashTable) prune(before instant) {
	*t = slices.DeleteFunc(*t, func(c crash) bool { return c.at < before })
	if len(*t) == 0 {
		*t = nil
	}
}

// of returns the line of a copy; nil if it is unknown.
func (t crashTable) of(id string) *crash {
	if i := slices.IndexFunc(t, func(c crash) bool { return c.Instance == id }); i >= 0 {
		return &t[i]
	}
	return nil
}

// description returns how a copy ended, as its node described it; empty if unknown.
func (t crashTable) description(id string) string {
	if c := t.of(id); c != nil {
		return c.Description
	}
	return ""
}

// Bounds of the ends of given-up indices.
const (
	maxEnded       = 10  // saved of an app: the newest
	maxDescription = 500 // bytes that are kept
)

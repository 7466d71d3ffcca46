package natsbus

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// tally counts failures by name, and logs each name at most once a minute.
type tally struct {
	log *slog.Logger

	mu        sync.Mutex
	counters  map[string]uint64
	logLimits map[string]*rate.Sometimes // by counter
}

func newTally(log *slog.Logger) *tally {
	return &tally{log: log, counters: map[string]uint64{}, logLimits: map[string]*rate.Sometimes{}}
}

func (t *tally) snapshot() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counters)
}

func (t *tally) count(name string, n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counters[name] += n
}

func (t *tally) countMalformed(subject string, err error) {
	t.warn("bad_"+subject+"_"+message.Cause(err), "message dropped", err)
}

// warn counts a failure, and logs its problem at most once a minute for each name.
func (t *tally) warn(name, problem string, err error) {
	t.mu.Lock()
	t.counters[name]++
	n, s := t.counters[name], t.logLimits[name]
	if s == nil {
		s = &rate.Sometimes{Interval: time.Minute}
		t.logLimits[name] = s
	}
	t.mu.Unlock()
	s.Do(func() {
		t.log.Warn("message not handled", "problem", problem, "counter", name, "so_far", n, "err", err)
	})
}

package state

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/pools/pooltest/memory"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

const (
	cpusOfNode = 4               // that a unit of weight offers
	beat       = 5 * time.Second // between two heartbeats of a node
	mostOfApp  = 6               // nodes that an app needs
)

// pair is one day of a pool with two autoscalers, a holder and a standby: two processes over one
// bucket and one provider, in virtual time.
type pair struct {
	ctx       context.Context
	r         *rand.Rand
	began     time.Time
	model     *model
	config    autoscaler.Config
	ttl       time.Duration
	groups    []*memory.Group
	shortages bool    // groups may be short, or refuse
	heaviest  float64 // weight of a machine
	lag       int     // reads that show the group as it was before a write of another
	processes []*process
	gone      []*process // killed ones, whose requests may still arrive
	heal      map[*process]time.Time
	steps     int
	logs      bool

	mu        sync.Mutex
	apps      map[string]*app // without the default signal
	standIn   app             // the default signal
	tasks     map[string]int
	cordoned  map[string]bool
	needs     []need
	broken    string
	log       []string
	takeovers int
	chosen    int
	acts      int
	raises    int
	lowered   int
	lowest    int     // of the sums of all targets so far
	lost      float64 // weight of the machines that the provider lost
	lostAt    time.Time
}

// app is what one application needs, and what its signal makes of it.
type app struct {
	demand  int // nodes
	mode    mode
	valueAt time.Time // when the last value was answered
	value   int
}

// mode is how a signal answers.
type mode int

const (
	value     mode = iota
	noOpinion      // it has none
	stale
	failing
	hanging
	modes
)

func (w *pair) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteLocked(format, args...)
}

func (w *pair) noteLocked(format string, args ...any) {
	if w.logs {
		w.log = append(w.log, fmt.Sprintf("%9v  ", time.Since(w.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
	}
}

// answer is what an app's signal last returned to a process.
type answer struct {
	known bool // a value, or no opinion
	seen  bool // there was one
	began time.Time
}

// need is the sum of what the signals last answered, from a time on.
type need struct {
	at    time.Time
	nodes int
}

func (w *pair) ignorance(*process) string { return "" }

// write writes to the bucket.
func (w *pair) write(p *process, _, key string, value []byte, revision uint64) (uint64, error) {
	return w.model.write(key, value, revision, p)
}

func (w *pair) answered(*process, string, time.Time, sigproto.Response, error) {}

// act has the provider do something for a process.
func (w *pair) act(_ *process, _ string, _ *memory.Group, do func() error) error { return do() }

func (w *pair) evaluate(context.Context, string) (sigproto.Response, error) {
	return sigproto.Response{Verdict: sigproto.VerdictNoOpinion}, nil
}

func (w *pair) cordon(node string, on bool) { w.cordoned[node] = on }

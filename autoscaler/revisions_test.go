package autoscaler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// 200 revisions at random moments of a loop that ticks as fast as possible: each tick has a
// response, of the old process or of the new one.
func TestRandomRevisions(t *testing.T) {
	w := newWorld(t, []int{1}, "web", "mail")
	w.config.Tick = 2 * time.Millisecond
	for i := range w.config.Apps {
		w.config.Apps[i].Period = w.config.Tick
	}
	w.config.Default.Period = w.config.Tick
	w.asks(sigproto.DefaultApp, 1)
	w.asks("mail", 1)
	random := rand.New(rand.NewPCG(1, 2))
	c := &changes{w: w, random: random}
	c.process = c.spawn()
	w.signals.set("web", c.process.Endpoint)
	ended, stop := w.run()
	await.Value(t, "a tick", w.ledger.appended)
	for range 200 {
		if random.IntN(2) == 0 {
			await.Value(t, "a tick", w.ledger.appended)
		}
		c.one(t)
	}
	w.signals.awaitReport(t, 0, "the last process", func(r ask.Report) bool {
		return slices.ContainsFunc(r.Results, func(a ask.Result) bool { return !a.Candidate && a.Address == c.process.Address })
	})
	stop()
	if err := await.Value(t, "the end", ended); err != nil {
		t.Fatal(err)
	}
	version := 0
	for _, r := range w.ledger.all(t) {
		app, _ := appOf(t, r, "web")
		wantOpinion(t, app.Opinion, api.VerdictValue)
		n, _ := strconv.Atoi(strings.TrimPrefix(app.Opinion.Version, "v"))
		if n < version {
			t.Errorf("v%d answers after v%d", n, version)
		}
		version = n
	}
}

// changes changes the processes of web.
type changes struct {
	w       *world
	random  *rand.Rand
	process *process
	beside  *process // the shadow, or nil
	started int
}

func (c *changes) spawn() *process {
	c.started++
	return c.w.spawn("web", c.started, fmt.Sprintf("v%d", c.started), &need{request: cpus(4)})
}

// one makes one change. After a killed process comes one that lives until the loop has found it.
// More deaths in one tick than maxDeaths are not tested here.
func (c *changes) one(t *testing.T) {
	d := c.w.signals
	switch c.random.IntN(6) {
	case 0: // a swap as bootstrap makes it
		fresh := c.spawn()
		d.setCandidate("web", ask.Candidate{Endpoint: fresh.Endpoint})
		d.awaitReport(t, 0, "the candidate", func(r ask.Report) bool {
			return slices.ContainsFunc(r.Results, func(a ask.Result) bool {
				return a.Candidate && a.Address == fresh.Address && a.Verdict == api.VerdictValue
			})
		})
		d.followed(t, d.promote("web"))
		c.end(c.process)
		c.end(c.beside)
		c.process, c.beside = fresh, nil
	case 1: // a swap without a probe
		fresh := c.spawn()
		d.followed(t, d.set("web", fresh.Endpoint))
		c.end(c.process)
		c.process = fresh
	case 2: // a death that the directory reports at once
		c.end(c.process)
		d.set("web", ask.Endpoint{Address: c.process.Address, Down: "the signal is backoff"})
		c.process = c.spawn()
		d.followed(t, d.set("web", c.process.Endpoint))
	case 3: // a death that it reports late
		c.end(c.process)
		d.set("mail", d.Endpoint("mail"))
		c.process = c.spawn()
		d.followed(t, d.set("web", c.process.Endpoint))
	case 4:
		fresh := c.spawn()
		c.endBeside(t, d.setCandidate("web", ask.Candidate{Endpoint: fresh.Endpoint, Shadow: true}))
		c.beside = fresh
	case 5:
		c.endBeside(t, d.change(func(_ map[string]ask.Endpoint, candidates map[string]ask.Candidate) { delete(candidates, "web") }))
		c.beside = nil
	}
}

// endBeside ends the shadow, mostly when it gets no more requests.
func (c *changes) endBeside(t *testing.T, revision int) {
	if c.random.IntN(4) > 0 {
		c.w.signals.followed(t, revision)
	}
	c.end(c.beside)
}

func (c *changes) end(p *process) {
	if p != nil {
		p.kill()
	}
}

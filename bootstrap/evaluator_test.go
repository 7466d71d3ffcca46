package bootstrap_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// evaluator is the loop of an autoscaler: in each round it asks the signals and
// candidates of the directory, and reports what it heard and how far it followed.
type evaluator struct {
	of     *autoscaler
	budget time.Duration // of one evaluation
	spared string        // an app whose signal has longer

	aside  sync.WaitGroup // candidates that are asked once, beside the rounds
	mu     sync.Mutex
	rounds int
	apps   map[string]*heard
}

// heard is what an evaluator knows of one app's signal.
type heard struct {
	answers int
	failed  int
	last    time.Time
	longest time.Duration // between two answers
	cpus    float64       // of the last answer
	lastErr error
}

// roundPause is the pause between two rounds.
const roundPause = time.Millisecond

// evaluate runs an evaluator until the autoscaler's stream ends, or the test does.
func (a *autoscaler) evaluate(t testing.TB, budget time.Duration) *evaluator {
	t.Helper()
	return a.evaluateSparing(t, budget, "")
}

// evaluateSparing is evaluate with more patience for one app's signal.
func (a *autoscaler) evaluateSparing(t testing.TB, budget time.Duration, spared string) *evaluator {
	t.Helper()
	e := &evaluator{of: a, budget: budget, spared: spared, apps: map[string]*heard{}}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return e
}

// asked is one process that is asked.
type asked struct {
	endpoint bootstrap.Endpoint
	client   *sigproto.Client
}

func newAsked(at bootstrap.Endpoint) *asked {
	return &asked{at, sigproto.NewClient(sigproto.ClientConfig{Address: at.Address, Hello: sigproto.Hello{Cluster: "prod", Pool: "default"}})}
}

func (e *evaluator) run(ctx context.Context) {
	clients := map[string]*asked{}
	seen := map[bootstrap.Endpoint]bool{}
	defer e.aside.Wait()
	defer func() {
		for _, c := range clients {
			c.client.Close()
		}
	}()
	pause := time.NewTicker(roundPause)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.of.ended:
			return
		case <-pause.C:
		}
		d, _ := e.of.reader.Directory()
		for _, s := range d.Signals {
			if c := s.Candidate; c != nil && !c.Shadow && c.Down == "" && !seen[c.Endpoint] {
				seen[c.Endpoint] = true
				e.aside.Go(func() { e.askOnce(ctx, s.App, c.Endpoint) })
			}
		}
		if d.Revision > 0 {
			e.of.reader.Report(bootstrap.Report{Revision: d.Revision, Answers: e.round(ctx, d, clients)})
		}
	}
}

// round asks everybody at the same time. Who is not listed any more is left.
func (e *evaluator) round(ctx context.Context, d bootstrap.Directory, clients map[string]*asked) []bootstrap.Answer {
	listed := map[string]bool{}
	of := func(key string, at bootstrap.Endpoint) *asked {
		listed[key] = true
		c := clients[key]
		if c == nil || c.endpoint.Address != at.Address || c.endpoint.Group != at.Group {
			if c != nil {
				c.client.Close()
			}
			c = newAsked(at)
			clients[key] = c
		}
		return c
	}
	answers := make([][]bootstrap.Answer, len(d.Signals))
	var asking sync.WaitGroup
	for i, s := range d.Signals {
		own := of(s.App, s.Endpoint)
		var candidate *asked
		if s.Candidate != nil && s.Candidate.Shadow && s.Candidate.Down == "" {
			candidate = of(s.App+" candidate", s.Candidate.Endpoint)
		}
		asking.Go(func() { answers[i] = e.ask(ctx, s, own, candidate) })
	}
	for key, c := range clients {
		if !listed[key] {
			c.client.Close()
			delete(clients, key)
		}
	}
	asking.Wait()
	var all []bootstrap.Answer
	for _, some := range answers {
		all = append(all, some...)
	}
	e.mu.Lock()
	e.rounds++
	e.mu.Unlock()
	return all
}

// askOnce asks a candidate that is to take its signal's place.
func (e *evaluator) askOnce(ctx context.Context, app string, at bootstrap.Endpoint) {
	c := newAsked(at)
	defer c.client.Close()
	a, _ := e.answer(ctx, app, c, true)
	e.of.reader.Report(bootstrap.Report{Answers: []bootstrap.Answer{a}})
}

// answer asks one process.
func (e *evaluator) answer(ctx context.Context, app string, c *asked, isCandidate bool) (bootstrap.Answer, float64) {
	a := bootstrap.Answer{App: app, Version: c.endpoint.Version, Address: c.endpoint.Address, Candidate: isCandidate, Verdict: "value"}
	budget := e.budget
	if app == e.spared {
		budget = patient
	}
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	r, err := c.client.Evaluate(ctx, sigproto.Evaluation{Timestamp: 1})
	if err != nil {
		a.Verdict, a.Why, a.Silent = bootstrap.VerdictFailed, err.Error(), ctx.Err() != nil && !errors.Is(err, syscall.ECONNREFUSED)
		if !isCandidate {
			e.note(app, 0, err)
		}
		return a, 0
	}
	cpus := 0.0
	if r.Resources.CPUs != nil {
		cpus = *r.Resources.CPUs
	}
	if !isCandidate {
		e.note(app, cpus, nil)
	}
	return a, cpus
}

// ask asks an app's signal and then its shadow, and compares them.
func (e *evaluator) ask(ctx context.Context, s bootstrap.Entry, own, candidate *asked) []bootstrap.Answer {
	ownAnswer, ownCPUs := e.answer(ctx, s.App, own, false)
	if candidate == nil {
		return []bootstrap.Answer{ownAnswer}
	}
	theirs, theirCPUs := e.answer(ctx, s.App, candidate, true)
	if ownAnswer.Verdict == "value" && theirs.Verdict == "value" {
		theirs.Compared = true
		if diff := theirCPUs - ownCPUs; diff > s.Candidate.Tolerance*ownCPUs || -diff > s.Candidate.Tolerance*ownCPUs {
			theirs.Difference = fmt.Sprintf("cpus %g, not %g", theirCPUs, ownCPUs)
		}
	}
	return []bootstrap.Answer{ownAnswer, theirs}
}

func (e *evaluator) note(app string, cpus float64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.apps[app]
	if h == nil {
		h = &heard{}
		e.apps[app] = h
	}
	if err != nil {
		h.failed++
		h.lastErr = err
		return
	}
	now := time.Now()
	if !h.last.IsZero() {
		h.longest = max(h.longest, now.Sub(h.last))
	}
	h.answers, h.last, h.cpus = h.answers+1, now, cpus
}

// ofApp returns what is known of an app's signal by now.
func (e *evaluator) ofApp(app string) heard {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.apps[app]; h != nil {
		return *h
	}
	return heard{}
}

// forget makes the gaps and failures of all apps count from now on.
func (e *evaluator) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.apps)
}

// awaitAnswers waits for so many more answers of an app.
func (e *evaluator) awaitAnswers(t testing.TB, app string, more int) {
	t.Helper()
	want := e.ofApp(app).answers + more
	eventually(t, fmt.Sprintf("%d answers of app %s", want, app), func() error {
		if h := e.ofApp(app); h.answers < want {
			return fmt.Errorf("%+v", h)
		}
		return nil
	})
}

package bootstrap_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// evaluator uses the directory as an autoscaler does. It sends requests to each app's signal repeatedly and
// concurrently. It reports the answers and the revision that it follows.
type evaluator struct {
	of         *autoscaler
	budget     time.Duration       // per evaluation
	spared     []string            // apps whose signals have a longer budget
	pause      time.Duration       // between two evaluations of a signal
	evaluation sigproto.Evaluation // the request

	requesting sync.WaitGroup
	mu         sync.Mutex
	apps       map[string]*received
	places     map[string]int // by app: the revision that lists the current endpoint
}

// received is what an evaluator has recorded about one app's signal.
type received struct {
	answers int
	failed  int
	last    time.Time
	longest time.Duration   // between two answers
	cpus    float64         // of the last answer
	took    []time.Duration // time of each answer
	lastErr error
}

// evaluate runs an evaluator that sends requests continuously, until the autoscaler's stream or the test ends.
func (a *autoscaler) evaluate(t testing.TB, budget time.Duration) *evaluator {
	t.Helper()
	return a.evaluateWith(t, &evaluator{budget: budget, pause: time.Millisecond})
}

// evaluateWith is evaluate for an evaluator with budget, spared and pause set.
func (a *autoscaler) evaluateWith(t testing.TB, e *evaluator) *evaluator {
	t.Helper()
	e.of, e.apps, e.places = a, map[string]*received{}, map[string]int{}
	e.evaluation.Timestamp = 1
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return e
}

// requested is one process that gets requests.
type requested struct {
	endpoint bootstrap.Endpoint
	client   *sigproto.Client
}

func newRequested(at bootstrap.Endpoint) *requested {
	return &requested{at, sigproto.NewClient(sigproto.ClientConfig{Address: at.Address, Hello: sigproto.Hello{Cluster: "prod", Pool: "default"}})}
}

// moved returns a, or its replacement if the endpoint differs.
func (a *requested) moved(to bootstrap.Endpoint) *requested {
	if a != nil && a.endpoint.Address == to.Address && a.endpoint.Group == to.Group {
		return a
	}
	a.close()
	return newRequested(to)
}

func (a *requested) close() {
	if a != nil {
		a.client.Close()
	}
}

// run sends requests to all entries of the directory.
func (e *evaluator) run(ctx context.Context) {
	defer e.requesting.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen := map[bootstrap.Endpoint]bool{}
	for {
		d, changed := e.enlist(ctx)
		for _, s := range d.Signals {
			if c := s.Candidate; c != nil && !c.Shadow && c.Down == "" && !seen[c.Endpoint] {
				seen[c.Endpoint] = true
				e.requesting.Go(func() { e.requestOnce(ctx, s.App, c.Endpoint) })
			}
		}
		e.report(nil)
		select {
		case <-ctx.Done():
			return
		case <-e.of.ended:
			return
		case <-changed:
		}
	}
}

// enlist starts requests to new entries.
func (e *evaluator) enlist(ctx context.Context) (d bootstrap.Directory, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, changed = e.of.reader.Directory()
	for _, s := range d.Signals {
		if _, is := e.places[s.App]; !is {
			e.places[s.App] = d.Revision
			e.requesting.Go(func() { e.follow(ctx, s.App) })
		}
	}
	return d, changed
}

// entry returns an app's entry of the latest revision. Without one, the app gets no more requests.
func (e *evaluator) entry(app string) (entry bootstrap.Entry, is bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, _ := e.of.reader.Directory()
	i := slices.IndexFunc(d.Signals, func(s bootstrap.Entry) bool { return s.App == app })
	if i < 0 {
		delete(e.places, app)
		return bootstrap.Entry{}, false
	}
	e.places[app] = d.Revision
	return d.Signals[i], true
}

// report reports answers, and the latest revision that all goroutines follow.
func (e *evaluator) report(answers []bootstrap.Answer) {
	e.mu.Lock()
	d, _ := e.of.reader.Directory()
	followed := d.Revision
	for _, revision := range e.places {
		followed = min(followed, revision)
	}
	e.mu.Unlock()
	if followed > 0 {
		e.of.reader.Report(bootstrap.Report{Revision: followed, Answers: answers})
	}
}

// follow sends requests to an app's signal and its shadow until the app is not listed.
func (e *evaluator) follow(ctx context.Context, app string) {
	var own, shadow *requested
	defer func() { own.close(); shadow.close() }()
	pause := time.NewTicker(e.pause)
	defer pause.Stop()
	for {
		s, is := e.entry(app)
		if !is {
			e.report(nil)
			return
		}
		own = own.moved(s.Endpoint)
		if s.Candidate != nil && s.Candidate.Shadow && s.Candidate.Down == "" {
			shadow = shadow.moved(s.Candidate.Endpoint)
		} else {
			shadow.close()
			shadow = nil
		}
		e.report(e.request(ctx, s, own, shadow))
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// requestOnce sends a request to a candidate that should replace its signal.
func (e *evaluator) requestOnce(ctx context.Context, app string, at bootstrap.Endpoint) {
	c := newRequested(at)
	defer c.client.Close()
	a, _ := e.answer(ctx, app, c, true)
	e.of.reader.Report(bootstrap.Report{Answers: []bootstrap.Answer{a}})
}

// answer sends a request to one process.
func (e *evaluator) answer(ctx context.Context, app string, c *requested, isCandidate bool) (bootstrap.Answer, float64) {
	a := bootstrap.Answer{App: app, Version: c.endpoint.Version, Address: c.endpoint.Address, Candidate: isCandidate, Verdict: "value"}
	budget := e.budget
	if slices.Contains(e.spared, app) {
		budget = patient
	}
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	began := time.Now()
	r, err := c.client.Evaluate(ctx, e.evaluation)
	if err != nil {
		a.Verdict, a.Why, a.Silent = bootstrap.VerdictFailed, err.Error(), ctx.Err() != nil && !errors.Is(err, syscall.ECONNREFUSED)
		if !isCandidate {
			e.note(app, 0, 0, err)
		}
		return a, 0
	}
	cpus := 0.0
	if r.Resources.CPUs != nil {
		cpus = *r.Resources.CPUs
	}
	if !isCandidate {
		e.note(app, cpus, time.Since(began), nil)
	}
	return a, cpus
}

// request sends a request to an app's signal, then to its shadow, and compares the answers.
func (e *evaluator) request(ctx context.Context, s bootstrap.Entry, own, candidate *requested) []bootstrap.Answer {
	ownAnswer, ownCPUs := e.answer(ctx, s.App, own, false)
	if candidate == nil {
		return []bootstrap.Answer{ownAnswer}
	}
	childEnd, theirCPUs := e.answer(ctx, s.App, candidate, true)
	if ownAnswer.Verdict == "value" && childEnd.Verdict == "value" {
		childEnd.Compared = true
		if diff := theirCPUs - ownCPUs; diff > s.Candidate.Tolerance*ownCPUs || -diff > s.Candidate.Tolerance*ownCPUs {
			childEnd.Difference = fmt.Sprintf("cpus %g, not %g", theirCPUs, ownCPUs)
		}
	}
	return []bootstrap.Answer{ownAnswer, childEnd}
}

func (e *evaluator) note(app string, cpus float64, took time.Duration, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.apps[app]
	if h == nil {
		h = &received{}
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
	h.took = append(h.took, took)
}

// ofApp returns the records about an app's signal.
func (e *evaluator) ofApp(app string) received {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.apps[app]; h != nil {
		return *h
	}
	return received{}
}

// reset resets the gaps and failures of all apps.
func (e *evaluator) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.apps)
}

// awaitAnswers waits for more answers of an app.
func (e *evaluator) awaitAnswers(t testing.TB, app string, more int) {
	t.Helper()
	want := e.ofApp(app).answers + more
	await.Nil(t, fmt.Sprintf("%d answers of app %s", want, app), func() error {
		if h := e.ofApp(app); h.answers < want {
			return fmt.Errorf("%+v", h)
		}
		return nil
	})
}

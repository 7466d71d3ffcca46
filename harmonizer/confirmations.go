package harmonizer

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

const (
	// maxUnconfirmed bounds the nudges that wait for a confirmation. Further ones are sent, and not watched.
	maxUnconfirmed = 65_536
	// unansweredFor is how many keep-alives an unanswered request stays in the status without a further nudge. While the
	// request is needed, the next nudge follows after about one keep-alive.
	unansweredFor = 3
)

// request identifies the nudges of one kind of an app.
type request struct {
	app  string
	stop bool
}

func requestOf(n apps.Nudge) request {
	if n.Start != nil {
		return request{n.Start.App, false}
	}
	return request{n.Stop.App, true}
}

// sentNudge is a nudge that waits for its confirmation.
type sentNudge struct {
	id string
	request
	at time.Time // when it was sent
}

// unanswered is a request whose nudges were not confirmed in time.
type unanswered struct {
	since  time.Time // when the first nudge was sent
	last   time.Time // when the keep-alive of the last one ended
	nudges int
}

// confirmations keeps the sent nudges until a scheduler confirms them. After the keep-alive of a nudge, its request is
// unanswered, until a later nudge of the request is confirmed or no nudge follows. It may be used concurrently.
type confirmations struct {
	keepAlive time.Duration
	counters  *counters

	mu      sync.Mutex
	waiting map[string]sentNudge
	order   []sentNudge // of waiting and of confirmed nudges, in order of time
	without map[request]unanswered
}

func newConfirmations(keepAlive time.Duration, c *counters) *confirmations {
	return &confirmations{keepAlive: keepAlive, counters: c, waiting: map[string]sentNudge{}, without: map[request]unanswered{}}
}

// addNudge keeps a nudge with an id that is sent now.
func (c *confirmations) addNudge(now time.Time, n apps.Nudge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.order) >= maxUnconfirmed {
		return
	}
	s := sentNudge{n.ID, requestOf(n), now}
	c.waiting[n.ID] = s
	c.order = append(c.order, s)
}

// removeNudge removes a nudge that was not sent.
func (c *confirmations) removeNudge(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// confirm removes the nudges of a confirmation. pool returns the pool of an app; empty for one without a row. It ignores
// nudges of other pools: a scheduler confirms those of its own pool only.
func (c *confirmations) confirm(ev apps.Confirmed, pool func(app string) string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	confirmed, refused := 0, 0
	for _, id := range ev.Nudges {
		s, ok := c.waiting[id]
		if !ok {
			continue // of another harmonizer, too late, or a repetition
		}
		if of := pool(s.app); of != "" && of != ev.Pool {
			refused++
			continue
		}
		delete(c.waiting, id)
		delete(c.without, s.request)
		confirmed++
	}
	for _, w := range ev.Waiting { // the confirmation of its nudge may be lost
		if of := pool(w.App); of == "" || of == ev.Pool {
			delete(c.without, request{app: w.App})
		}
	}
	c.counters.add("nudges_confirmed", confirmed)
	if refused > 0 {
		c.counters.add("confirmations_refused", refused)
	}
}

// expire makes the requests of overdue nudges unanswered.
func (c *confirmations) expire(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := 0
	for _, s := range c.order {
		if now.Sub(s.at) < c.keepAlive {
			break
		}
		done++
		if c.waiting[s.id].id == "" {
			continue
		}
		delete(c.waiting, s.id)
		u, known := c.without[s.request]
		if !known {
			u.since = s.at
		}
		u.last, u.nudges = now, u.nudges+1
		c.without[s.request] = u
		c.counters.add("nudges_unanswered", 1)
	}
	if c.order = c.order[done:]; len(c.order) == 0 {
		c.order = nil
	}
	for r, u := range c.without {
		if now.Sub(u.last) > unansweredFor*c.keepAlive {
			delete(c.without, r)
		}
	}
}

// clear removes all nudges, as at the begin of a term.
func (c *confirmations) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order = nil
	clear(c.waiting)
	clear(c.without)
}

// unanswered returns the unanswered requests, the oldest first.
func (c *confirmations) unanswered(pool func(app string) string) []api.UnansweredNudge {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []api.UnansweredNudge
	for r, u := range c.without {
		all = append(all, api.UnansweredNudge{App: r.app, Pool: pool(r.app), Stop: r.stop, Since: u.since, Nudges: u.nudges})
	}
	slices.SortFunc(all, func(a, b api.UnansweredNudge) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.App, b.App)) })
	return all
}

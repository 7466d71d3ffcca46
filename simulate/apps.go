package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/placer"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
	"github.com/weirkeeper/weirkeeper/resource"
)

// App is an application, whose copies are placed on the nodes.
type App struct {
	Name     string
	Copy     resource.Vector // what one copy takes
	StartsIn time.Duration   // from the start of a copy until it runs
}

// Apps is work in copies of applications. The rules of the placer put them on the nodes, and agents in memory run them. So copies wait
// although the nodes have room in sum, and a node drains until its copies run elsewhere.
type Apps struct {
	apps     map[string]App
	names    []string // sorted
	counts   *Series  // how many instances each app has, by time
	assigner *placer.Assigner
	pool     string

	rows      map[string]int    // instances in the latest row
	agents    map[string]*agent // by node
	running   map[copyName]int  // copies that are up
	missing   map[copyName]time.Time
	disrupted int       // copies that were up, and ended although their app needed them
	check     time.Time // when the placer acts next without a cause; zero: never
}

// copyName is an index of an app.
type copyName struct {
	app   string
	index int
}

// agent runs the copies of a node.
type agent struct {
	node   *Node
	copies map[string]*instance
	sent   bool      // the placer has its latest report
	gone   time.Time // when the node ended; zero: it exists
	tasks  int
	used   resource.Vector
	closed bool // cordoned, as in its latest report
}

// instance is a copy on a node.
type instance struct {
	copyName
	version   string
	footprint resource.Vector
	runs      time.Time // when it is up
	up        bool
}

// NewApps returns work of these apps in a pool. counts has the number of instances of each app, by AddInstances or from a file.
func NewApps(pool string, counts *Series, apps ...App) (*Apps, error) {
	a := &Apps{
		apps: map[string]App{}, counts: counts, pool: pool, rows: map[string]int{}, agents: map[string]*agent{}, running: map[copyName]int{},
		missing:  map[copyName]time.Time{},
		assigner: placer.NewAssigner(placer.Config{Cluster: "simulation", Pool: pool}, "simulation"),
	}
	for _, app := range apps {
		if _, twice := a.apps[app.Name]; twice || app.Name == "" || app.Copy.IsZero() || app.Copy.Validate() != nil || app.StartsIn < 0 {
			return nil, fmt.Errorf("app %q: a copy takes %v and starts in %v: want a name of its own, and a copy that takes something", app.Name, app.Copy, app.StartsIn)
		}
		if len(counts.apps[app.Name]) == 0 {
			return nil, fmt.Errorf("app %q: its number of instances is missing", app.Name)
		}
		a.apps[app.Name] = app
		a.names = append(a.names, app.Name)
	}
	slices.Sort(a.names)
	return a, nil
}

// AddInstances adds the next number of instances of an app.
func (s *Series) AddInstances(app string, at time.Time, instances int) error {
	if instances < 0 || instances > maxInstances {
		return fmt.Errorf("%d instances of app %s: want 0 to %d", instances, app, maxInstances)
	}
	return s.add(app, point{at: at, instances: instances})
}

const maxInstances = 100_000

// instances returns the number of instances of an app at a time.
func (a *Apps) instances(app string, at time.Time) int {
	all := a.counts.apps[app]
	i := sort.Search(len(all), func(i int) bool { return all[i].at.After(at) }) - 1
	return all[max(0, i)].instances
}

// Requests implements Work.
func (a *Apps) Requests(at time.Time, app string) resource.Request {
	var sum, kinds resource.Vector
	for _, name := range a.names {
		if kinds = kinds.Add(a.apps[name].Copy); app == "" || app == name {
			sum = sum.Add(a.apps[name].Copy.Scale(float64(a.instances(name, at))))
		}
	}
	var r resource.Request
	for k, x := range kinds {
		if x > 0 {
			r = r.With(resource.Kind(k), sum[k])
		}
	}
	return r
}

// places answers where copies fit, as the placer of the pool does.
func (a *Apps) places(now time.Time, q api.PlacesQuestion) (api.Places, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return api.Places{}, err
	}
	return a.assigner.Places(now, q, string(text)), nil
}

// maxRounds bounds the exchanges of requests and reports at one moment.
const maxRounds = 1000

// Step implements Work.
func (a *Apps) Step(now time.Time, nodes []*Node) Load {
	a.follow(now, nodes)
	a.desire(now)
	for range maxRounds {
		a.report(now)
		requests := a.assigner.Act(now)
		if len(requests) == 0 {
			break
		}
		for _, r := range requests {
			a.carryOut(now, r)
		}
		a.desire(now)
	}
	a.check = time.Time{}
	for _, g := range a.agents {
		if !g.gone.IsZero() {
			a.check = earlier(a.check, g.gone.Add(liveness.SilentAfter(liveness.DefaultPeriod)+time.Second))
			continue
		}
		g.node.Allocated, g.node.Tasks = g.used, g.tasks
		if g.closed && len(g.copies) > 0 {
			a.check = earlier(a.check, now.Add(drainCheck))
		}
	}
	return a.load()
}

// drainCheck is the time between two attempts to move the copies of a draining node.
const drainCheck = 5 * time.Second

// follow adopts nodes that joined, ended or were cordoned, and copies that are up now.
func (a *Apps) follow(now time.Time, nodes []*Node) {
	there := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		there[n.ID] = true
		g := a.agents[n.ID]
		if g == nil {
			g = &agent{node: n, copies: map[string]*instance{}}
			a.agents[n.ID] = g
		}
		if closed := !n.Cordoned.IsZero(); closed != g.closed {
			g.closed, g.sent = closed, false
		}
		for _, c := range g.copies {
			if !c.up && !now.Before(c.runs) {
				c.up, g.sent = true, false
				a.running[c.copyName]++
			}
		}
	}
	for id, g := range a.agents {
		switch {
		case there[id]:
		case g.gone.IsZero():
			g.gone = now
			for instance := range g.copies {
				a.lose(g, instance)
			}
		case now.Sub(g.gone) > liveness.SilentAfter(liveness.DefaultPeriod):
			delete(a.agents, id) // the placer has detected the loss
		}
	}
}

// lose removes a copy of a node.
func (a *Apps) lose(g *agent, id string) {
	c := g.copies[id]
	delete(g.copies, id)
	g.used, g.tasks, g.sent = g.used.Sub(c.footprint), g.tasks-1, false
	if len(g.copies) == 0 {
		g.used = resource.Vector{} // no rounding errors stay
	}
	if c.up {
		if a.running[c.copyName]--; a.running[c.copyName] == 0 {
			delete(a.running, c.copyName)
			if c.index < a.rows[c.app] {
				a.disrupted++
			}
		}
	}
}

// desire sends the rows that changed, and nudges for missing and superfluous copies, as the harmonizer does.
func (a *Apps) desire(now time.Time) {
	there := map[copyName]bool{}
	for _, g := range a.agents {
		for _, c := range g.copies {
			there[c.copyName] = true
		}
	}
	for _, name := range a.names {
		app, count := a.apps[name], a.instances(name, now)
		if before, known := a.rows[name]; !known || before != count {
			a.rows[name] = count
			a.assigner.Row(api.App{
				Name: name, Pool: a.pool, Version: version, Command: "run", Instances: count,
				CPUs: app.Copy[resource.CPUs], Mem: app.Copy[resource.Mem], Disk: app.Copy[resource.Disk], GPUs: app.Copy[resource.GPUs],
			})
			a.stopSuperfluous(now, name, count)
		}
		for index := range count {
			of := copyName{name, index}
			if _, waits := a.missing[of]; !waits && a.running[of] == 0 {
				a.missing[of] = now
			}
			if !there[of] {
				a.assigner.Start(now, api.Start{App: name, Version: version, Indices: []int{index}})
			}
		}
	}
	for of := range a.missing {
		if a.running[of] > 0 || of.index >= a.rows[of.app] {
			delete(a.missing, of)
		}
	}
}

// version is that of all copies.
const version = "v1"

func (a *Apps) stopSuperfluous(now time.Time, app string, count int) {
	stop := api.Stop{App: app, Instances: map[string]string{}}
	for _, g := range a.agents {
		for id, c := range g.copies {
			if c.app == app && c.index >= count {
				stop.Instances[id] = version
			}
		}
	}
	if len(stop.Instances) > 0 {
		a.assigner.Stop(now, stop)
	}
}

// report sends the reports that changed. All other nodes repeat theirs.
func (a *Apps) report(now time.Time) {
	for _, id := range slices.Sorted(maps.Keys(a.agents)) {
		g := a.agents[id]
		switch {
		case !g.gone.IsZero():
			continue
		case g.sent:
			a.assigner.Unchanged(now, id)
			continue
		}
		g.sent = true
		beats := make([]api.Beat, 0, len(g.copies))
		for _, instance := range slices.Sorted(maps.Keys(g.copies)) {
			c := g.copies[instance]
			state := api.CopyStarting
			if c.up {
				state = api.CopyRunning
			}
			if c.up && g.closed {
				state = api.CopyEvacuating
			}
			beats = append(beats, api.Beat{App: c.app, Version: c.version, Index: c.index, Instance: instance, State: state})
		}
		a.assigner.Report(now, api.NodeFacts{
			ID: id, Pool: a.pool, Group: g.node.Group, BootID: id, Zone: g.node.Zone, Resources: g.node.Machine, Allocated: g.used, Tasks: g.tasks,
			Draining: g.closed, SafeToEvict: true, At: now,
		}, beats)
	}
}

// carryOut carries out a request to an agent.
func (a *Apps) carryOut(now time.Time, r placer.Request) {
	g := a.agents[r.Node]
	switch {
	case r.Stop:
		if g != nil && g.copies[r.Instance] != nil {
			a.lose(g, r.Instance)
			a.assigner.Exited(now, r.Instance)
		}
	case g == nil || !g.gone.IsZero() || g.closed || !r.Footprint.Fits(g.node.Machine.Sub(g.used)):
		a.assigner.Started(now, r.Instance, placer.Full)
	default:
		c := &instance{copyName: copyName{r.App, r.Index}, version: r.Version, footprint: r.Footprint, runs: now.Add(a.apps[r.App].StartsIn)}
		c.up = !now.Before(c.runs)
		g.copies[r.Instance] = c
		g.used, g.tasks, g.sent = g.used.Add(c.footprint), g.tasks+1, false
		if c.up {
			a.running[c.copyName]++
		}
		a.assigner.Started(now, r.Instance, placer.Accepted)
	}
}

// load returns what all copies need, and what those need that are not up.
func (a *Apps) load() (l Load) {
	missing := map[string]int{}
	for of, since := range a.missing {
		missing[of.app]++
		l.Waiting = earlier(l.Waiting, since)
	}
	for _, name := range a.names {
		l.Wanted = l.Wanted.Add(a.apps[name].Copy.Scale(float64(a.rows[name])))
		l.Lacks = l.Lacks.Add(a.apps[name].Copy.Scale(float64(missing[name])))
	}
	return l
}

// Until implements Work.
func (a *Apps) Until(time.Time) Load { return a.load() }

// Next implements Work.
func (a *Apps) Next(now time.Time) time.Time {
	next := earlier(a.counts.Next(now), a.check)
	for _, g := range a.agents {
		for _, c := range g.copies {
			if !c.up {
				next = earlier(next, c.runs)
			}
		}
	}
	return next
}

package core

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// PlacesInput is a question of a pool, with what is not known.
type PlacesInput struct {
	Pool     string
	Question api.PlacesQuestion
	// Budgets and Volumes are why the budgets and the volumes are unknown; empty: they are known.
	Budgets, Volumes string
}

// Snapshot returns a copy for Places, which another goroutine may use. What both share does not change.
func (c *Cluster) Snapshot() *Cluster {
	c.learn()
	next := *c
	next.nodes, next.ids, next.waiting = make(map[string]*nodeState, len(c.nodes)), make(map[string][]string, len(c.ids)), make(map[string]*waiting, len(c.waiting))
	for name, s := range c.nodes {
		own := *s
		own.pods = maps.Clone(s.pods)
		next.nodes[name] = &own
	}
	for id, names := range c.ids {
		next.ids[id] = slices.Clone(names)
	}
	for uid, w := range c.waiting {
		own := *w
		next.waiting[uid] = &own
	}
	next.budgets, next.volumes, next.claims = maps.Clone(c.budgets), maps.Clone(c.volumes), maps.Clone(c.claims)
	next.shapes.of = slices.Clone(c.shapes.of)
	next.pods, next.dirty = nil, nil
	return &next
}

// Places returns the world of a pool for package fit, and what all pods of the pool take. It keeps no part of the cluster that may
// change, so it may be solved later.
func (c *Cluster) Places(now time.Time, in PlacesInput) (w fit.World, held resource.Vector) {
	b := builder{Cluster: c, now: now, in: in, pool: slices.IndexFunc(c.pools, func(p Pool) bool { return p.Name == in.Pool }), indices: map[string]int{}, shared: map[*Rules]*requirements{}}
	w.Question = in.Question
	if b.pool < 0 {
		return w, held
	}
	gone, leave := setOf(in.Question.Gone), setOf(in.Question.Leave)
	sum := Vector{}
	b.plan = newPlan(c, in)
	for _, name := range c.Nodes() {
		s := c.nodes[name]
		f, ok := c.Facts(name, now)
		if s.pool != b.pool || !ok {
			continue
		}
		sum = sum.add(f.Allocated)
		leaves := gone[f.ID] || f.Draining
		n := &fit.Node{ID: f.ID, Group: f.Group, Size: f.Resources.Resources(), Room: f.Resources.sub(f.Allocated).Resources()}
		n.Closed = leaves || f.CordonedByOther || s.Ready != ReadyTrue || c.pools[b.pool].startupTaint(s.Taints) != "" || len(c.ids[s.ID]) > 1 || s.Cut
		w.Nodes = append(w.Nodes, n)
		b.plan.add(n, s, leaves)
		switch {
		case leaves:
			w.Waiting = append(w.Waiting, b.copies(s, n)...)
		case leave[f.ID]:
			n.Copies, n.Stays = b.copies(s, n), b.stays(s, f)
			slices.SortStableFunc(n.Copies, func(x, y fit.Copy) int {
				return cmp.Compare(fit.Share(y.Footprint, n.Size), fit.Share(x.Footprint, n.Size))
			})
		}
	}
	shapes := c.learn()
	for _, one := range c.oldest() {
		if c.assign(one, shapes); one.pool == b.pool {
			w.Waiting = append(w.Waiting, b.copyOf(one.Pod, ""))
			sum = sum.add(one.Req)
		}
	}
	b.plan.machines(shapes[b.pool])
	b.plan.count()
	for _, h := range in.Question.Headroom {
		w.Headroom = append(w.Headroom, headroomOf(h, sum.Resources()))
	}
	w.Rules = func() fit.Rules { return b.plan.fresh() }
	return w, sum.Resources()
}

// headroomOf returns the places that are to stay free. held is what all pods of the pool take.
func headroomOf(h api.Headroom, held resource.Vector) fit.Headroom {
	one := fit.Headroom{Place: fit.Copy{App: h.Name, Footprint: h.Resources, Group: h.Group}}
	if h.App != "" {
		one.Why = "the pool runs Kubernetes, which has no app " + h.App + ": give the size of a place"
		return one
	}
	one.Wanted = h.Wanted(h.Resources, 0, held)
	return one
}

func setOf(all []string) map[string]bool {
	set := make(map[string]bool, len(all))
	for _, one := range all {
		set[one] = true
	}
	return set
}

// builder makes the world of one pool.
type builder struct {
	*Cluster
	now     time.Time
	in      PlacesInput
	pool    int
	plan    *plan
	indices map[string]int // copies of an owner
	shared  map[*Rules]*requirements
}

// copies returns the tasks of a node that need another place when it leaves.
func (b *builder) copies(s *nodeState, n *fit.Node) (all []fit.Copy) {
	tasks := make([]*Pod, 0, s.tasks.n)
	for _, p := range s.pods {
		if p.moves() {
			tasks = append(tasks, p)
		}
	}
	slices.SortFunc(tasks, func(x, y *Pod) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name), strings.Compare(x.UID, y.UID))
	})
	for _, p := range tasks {
		all = append(all, b.copyOf(p, n.ID))
	}
	return all
}

// copyOf returns a pod as a copy of its owner.
func (b *builder) copyOf(p *Pod, on string) fit.Copy {
	app := p.Key()
	if _, owner, ok := strings.Cut(p.Owner, "/"); ok {
		app = p.Namespace + "/" + owner
	}
	app = app[:min(len(app), api.MaxPlacesText)]
	index := b.indices[app]
	b.indices[app]++
	return fit.Copy{App: app, Index: index, Name: p.Key(), Footprint: p.Req.Resources(), Leaves: on, Rule: b.requirementsOf(p)}
}

// requirements are the rules of a pod with its volumes.
type requirements struct {
	*Rules
	volumes []*Volume
	unknown string // what is not understood
}

// requirementsOf returns what a pod requires. Pods without volumes share it.
func (b *builder) requirementsOf(p *Pod) *requirements {
	r := b.shared[p.rules()]
	if r == nil {
		r = &requirements{Rules: p.rules(), unknown: p.rules().Unknown}
		b.shared[p.rules()] = r
	}
	if len(p.Claims) == 0 {
		return r
	}
	own := *r
	for _, claim := range p.Claims {
		switch v := b.claims[claim]; {
		case b.in.Volumes != "":
			own.unknown = cmp.Or(own.unknown, "its volumes: "+b.in.Volumes)
		case v == nil:
			own.unknown = cmp.Or(own.unknown, "the claim "+claim+" without a bound volume")
		default:
			own.volumes = append(own.volumes, v)
		}
	}
	return &own
}

// mismatch returns why a pod cannot run on a machine with these labels and taints, with its volumes.
func (r *requirements) mismatch(name string, labels map[string]string, taints []Taint) string {
	why := r.Rules.mismatch(name, labels, taints)
	for _, v := range r.volumes {
		if why == "" && v.Selects != nil {
			why = v.Selects(name, labels)
		}
	}
	return why
}

// stays returns why a node cannot be emptied now, whatever room there is; empty: it may be.
func (b *builder) stays(s *nodeState, f Facts) string {
	twins, _ := b.twins(s)
	switch {
	case s.Protected:
		return "an annotation of the node forbids to remove it"
	case s.Ready != ReadyTrue:
		return "it is not Ready"
	case len(twins) > 0 || s.also >= 0 || s.Cut:
		why, _ := b.problem(s)
		return why
	case f.Tasks >= maxTasks:
		return "it has too many pods"
	case b.in.Budgets != "":
		return "the disruption budgets of pods are unknown: " + b.in.Budgets
	}
	why := ""
	for _, p := range s.pods {
		reason := ""
		if !p.moves() {
			continue
		}
		if p.isProtected(b.now) {
			reason = fmt.Sprintf("%s must not be evicted: an annotation forbids it, or it has no controller", p.Key())
		} else if unknown := b.requirementsOf(p).unknown; unknown != "" {
			reason = fmt.Sprintf("%s: not understood: %s", p.Key(), unknown)
		}
		if reason != "" && (why == "" || reason < why) { // the same one at each question
			why = reason
		}
	}
	return why
}

// PutBudget adds or changes a budget.
func (c *Cluster) PutBudget(b Budget) { c.budgets[b.UID] = &b }

// PutVolume adds or changes the bound volume of a claim.
func (c *Cluster) PutVolume(v Volume) {
	c.DeleteVolume(v.UID)
	c.volumes[v.UID], c.claims[v.Claim] = &v, &v
}

// DeleteBudget removes a budget.
func (c *Cluster) DeleteBudget(uid string) { delete(c.budgets, uid) }

// DeleteVolume removes a volume.
func (c *Cluster) DeleteVolume(uid string) {
	if v := c.volumes[uid]; v != nil && c.claims[v.Claim] == v {
		delete(c.claims, v.Claim)
	}
	delete(c.volumes, uid)
}

// KeepBudgets removes all budgets but those with these uids.
func (c *Cluster) KeepBudgets(uids map[string]bool) {
	for uid := range c.budgets {
		if !uids[uid] {
			c.DeleteBudget(uid)
		}
	}
}

// KeepVolumes removes all volumes but those with these uids.
func (c *Cluster) KeepVolumes(uids map[string]bool) {
	for uid := range c.volumes {
		if !uids[uid] {
			c.DeleteVolume(uid)
		}
	}
}

package adapter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
)

// maxListed bounds each list of a Status.
const maxListed = 100

// Status is what an operator reads first.
type Status struct {
	Fresh bool      `json:"fresh"`
	AsOf  time.Time `json:"as_of,omitzero"` // of the latest event or bookmark
	Why   string    `json:"why,omitempty"`  // why it is not fresh
	Nodes int       `json:"nodes"`
	Pods  int       `json:"pods"` // that have not finished
	// Leads are the pools for which this process acts. Of several processes, one acts for a pool.
	Leads []string `json:"leads"`
	// Unknown are resources that are not current and that only questions where pods fit need, with why: without them no node is removed.
	Unknown map[string]string `json:"unknown,omitempty"`
	// Problems are nodes of pools that do not publish, or not all of their facts. At most 100.
	Problems []NodeProblem `json:"problems"`
	// Unplaced are pods that wait, and that no pool has machines for. At most 100.
	Unplaced []UnplacedPod `json:"unplaced"`
	// Blocked are pods of cordoned nodes whose eviction is refused. At most 100.
	Blocked []BlockedPod `json:"blocked"`
}

// NodeProblem is a problem of a node.
type NodeProblem struct {
	Node string `json:"node"`
	Pool string `json:"pool"`
	Why  string `json:"why"`
}

// UnplacedPod is a pod that no pool has machines for.
type UnplacedPod struct {
	Pod   string    `json:"pod"`
	Since time.Time `json:"since"`
	Why   string    `json:"why"`
}

// BlockedPod is a pod whose eviction is refused.
type BlockedPod struct {
	Node  string    `json:"node"`
	Pod   string    `json:"pod"`
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
}

// Status returns the status at this time.
func (a *Adapter) Status(now time.Time) Status {
	state := a.mirror.State(now)
	s := Status{Unknown: map[string]string{}, Fresh: state.Fresh, AsOf: state.AsOf, Why: state.Why, Leads: []string{}, Problems: []NodeProblem{}, Unplaced: []UnplacedPod{}, Blocked: []BlockedPod{}}
	for _, resource := range []string{kube.Budgets, kube.Volumes} {
		if why := a.mirror.Unknown(resource, now); why != "" {
			s.Unknown[resource] = why
		}
	}
	for _, p := range a.cfg.Pools {
		if a.leads(p.Name) {
			s.Leads = append(s.Leads, p.Name)
		}
	}
	var problems []core.Problem
	var others []core.Waiting
	var draining []string
	a.mirror.Read(func(c *core.Cluster) {
		s.Nodes, s.Pods = c.Size()
		problems, draining = c.Problems(), c.Draining(nil)
		_, others = c.Pending(now, a.cfg.Grace)
	})
	for _, p := range problems[:min(len(problems), maxListed)] {
		s.Problems = append(s.Problems, NodeProblem{p.Node, p.Pool, p.Why})
	}
	for _, w := range others[:min(len(others), maxListed)] {
		s.Unplaced = append(s.Unplaced, UnplacedPod{w.Namespace + "/" + w.Name, w.Since, w.Why})
	}
	for _, node := range draining {
		for _, b := range a.evictions.blocked(node) {
			if len(s.Blocked) < maxListed {
				s.Blocked = append(s.Blocked, BlockedPod{node, b.Task, b.Why, b.Since})
			}
		}
	}
	return s
}

// Ready returns why the adapter does not serve all pools; empty if it does.
func (a *Adapter) Ready(now time.Time) string {
	for _, p := range a.cfg.Pools {
		if !p.Conn.IsConnected() {
			return "pool " + p.Name + " is not connected to NATS"
		}
	}
	return a.mirror.State(now).Why
}

// stuckAfter is how long the loop may not run.
const stuckAfter = 30 * time.Second

// Stuck returns why the loop does not run; empty if it does, or has not begun.
func (a *Adapter) Stuck(now time.Time) string {
	if last := a.counts.batch.Load(); last != 0 && now.Sub(time.Unix(0, last)) > stuckAfter {
		return "the loop has not run since " + time.Unix(0, last).UTC().Format(time.RFC3339)
	}
	return ""
}

// gauge is one metric of the adapter.
type gauge struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// collector implements prometheus.Collector.
type collector struct {
	a   *Adapter
	all map[string]gauge
}

// Collector returns the metrics of the adapter.
func (a *Adapter) Collector() prometheus.Collector {
	c := collector{a, map[string]gauge{}}
	for _, m := range []struct {
		name, help string
		kind       prometheus.ValueType
		labels     []string
	}{
		{"fresh", "1 if the state of nodes and pods is current. Otherwise no facts are published.", prometheus.GaugeValue, nil},
		{"last_contact_timestamp_seconds", "Time of the last event or bookmark of the API server, of the watch with the earlier one.", prometheus.GaugeValue, nil},
		{"leads", "1 if this process acts for the pool. Of several processes, one does.", prometheus.GaugeValue, []string{"pool"}},
		{"nodes", "Nodes of a pool.", prometheus.GaugeValue, []string{"pool"}},
		{"node_problems", "Nodes of a pool that do not publish, or not all of their facts.", prometheus.GaugeValue, []string{"pool"}},
		{"pods", "Pods that have not finished.", prometheus.GaugeValue, nil},
		{"pods_waiting", "Pods that wait for a machine of a pool.", prometheus.GaugeValue, []string{"pool"}},
		{"pods_unplaced", "Pods that wait, and that no pool has machines for.", prometheus.GaugeValue, nil},
		{"watch_events_total", "Events and bookmarks of the API server.", prometheus.CounterValue, []string{"resource"}},
		{"watch_lists_total", "Lists of all objects.", prometheus.CounterValue, []string{"resource"}},
		{"watch_errors_total", "Errors of watches.", prometheus.CounterValue, []string{"resource"}},
		{"facts_published_total", "Facts of nodes that were published.", prometheus.CounterValue, nil},
		{"messages_unsent_total", "Messages that could not be sent.", prometheus.CounterValue, nil},
		{"cordon_requests_total", "Requests to cordon a node, or to take a cordon back.", prometheus.CounterValue, nil},
		{"evictions_total", "Evictions that were sent.", prometheus.CounterValue, nil},
		{"evictions_refused_total", "Evictions that the API server refused.", prometheus.CounterValue, nil},
	} {
		c.all[m.name] = gauge{prometheus.NewDesc("weir_kubernetes_"+m.name, m.help, m.labels, prometheus.Labels{"cluster": a.cfg.Cluster}), m.kind}
	}
	return c
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range c.all {
		ch <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	emit := func(name string, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(c.all[name].desc, c.all[name].kind, value, labels...)
	}
	now := time.Now()
	state := c.a.mirror.State(now)
	emit("fresh", flag(state.Fresh))
	if !state.AsOf.IsZero() {
		emit("last_contact_timestamp_seconds", float64(state.AsOf.UnixMilli())/1000)
	}
	c.a.mirror.Read(func(cluster *core.Cluster) {
		_, pods := cluster.Size()
		emit("pods", float64(pods))
		byPool, others := cluster.Pending(now, c.a.cfg.Grace)
		emit("pods_unplaced", float64(len(others)))
		problems := map[string]int{}
		for _, p := range cluster.Problems() {
			problems[p.Pool]++
		}
		for name := range c.a.pools {
			emit("leads", flag(c.a.leads(name)), name)
			emit("nodes", float64(cluster.NodesOf(name)), name)
			emit("node_problems", float64(problems[name]), name)
			emit("pods_waiting", float64(len(byPool[name].Pods)), name)
		}
	})
	for _, counts := range c.a.mirror.Counts() {
		emit("watch_events_total", float64(counts.Events), counts.Resource)
		emit("watch_lists_total", float64(counts.Lists), counts.Resource)
		emit("watch_errors_total", float64(counts.Errors), counts.Resource)
	}
	emit("facts_published_total", float64(c.a.counts.facts.Load()))
	emit("messages_unsent_total", float64(c.a.counts.unsent.Load()))
	emit("cordon_requests_total", float64(c.a.counts.cordons.Load()))
	emit("evictions_total", float64(c.a.counts.evictions.Load()))
	emit("evictions_refused_total", float64(c.a.counts.refusals.Load()))
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

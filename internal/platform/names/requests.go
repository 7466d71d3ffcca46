package names

// PlanSubject is the subject of requests for a pool's next plan.
func PlanSubject(cluster, pool string) string {
	return Subject(cluster, "autoscaler", pool, "plan")
}

// NodesSubject is the subject of requests for the facts of a pool's nodes.
func NodesSubject(cluster, pool string) string {
	return Subject(cluster, "autoscaler", pool, "nodes")
}

// BootstrapSubject returns the subject of a request to a pool's bootstrap.
func BootstrapSubject(cluster, pool, what string) string {
	return Subject(cluster, "bootstrap", pool, what)
}

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

const permissionFix = `run "weir nats init" with the same servers, cluster and pools, copy accounts.conf to the servers, reload each twice, and restart "weir auth", which has the permissions of pools and placers; or use credentials of another role`

// permissions finds the role of this connection by what the servers permit, and compares it with the table of roles.
func (x *busExam) permissions(ctx context.Context) {
	x.progress("role")
	const rounds = 4 // an examination has about 190 round trips
	bound, cancel := context.WithTimeout(ctx, rounds*x.Timeout)
	defer cancel()
	b, err := bus.Find(bound, x.Config)
	if err != nil {
		x.found("role", Failed, remedyOf(err), "%s", causeOf(err))
		return
	}
	defer b.Close()
	candidates := roleCandidates(x.Cluster, x.Pool, x.Node)
	acts := actsOf(candidates)
	got, err := b.Try(bound, acts, destinations(x.Cluster, x.Pool, x.Node))
	if err != nil {
		x.found("role", Unknown, "check the network and the server; --timeout is the limit of each check", "%v", err)
		return
	}
	var f Finding
	f, x.role = judge(candidates, acts, got)
	f.Check = "role"
	x.report(f)
}

// destinations are the inboxes of the roles.
func destinations(cluster, pool, node string) (all []string) {
	for _, u := range roleCandidates(cluster, pool, node) {
		all = append(all, u.InboxPrefix()+".doctor.probe")
	}
	return slices.Compact(all)
}

// roleCandidates returns the users that a connection may be. A node has a name of its own, so its roles need that name.
func roleCandidates(cluster, pool, node string) (all []roles.User) {
	for _, legacy := range []bool{false, true} {
		for _, r := range roles.All() {
			if node == "" && (r == roles.Agent || r == roles.LegacyDEA) || r == roles.Workflow { // its subjects are not in the table
				continue
			}
			all = append(all, roles.User{Role: r, Cluster: cluster, Pool: pool, Node: node, Pools: []string{pool}, LegacyDEAs: legacy})
		}
	}
	return all
}

// actsOf returns the acts by which the candidates differ: each permission of each of them.
func actsOf(candidates []roles.User) []bus.Act {
	acts := []bus.Act{{Subscribes: true, Subject: ">"}}
	seen := map[bus.Act]bool{}
	for _, u := range candidates {
		for _, p := range u.Probes() {
			a := bus.Act{Subscribes: p.Direction == roles.Subscribe, Subject: p.Subject}
			if !seen[a] {
				seen[a] = true
				acts = append(acts, a)
			}
		}
	}
	return acts
}

// judge returns the candidate whose permissions are nearest to the tested ones, and how they differ.
func judge(candidates []roles.User, acts []bus.Act, got []bus.Permission) (Finding, roleFound) {
	counts := map[bus.Permission]int{}
	for _, p := range got {
		counts[p]++
	}
	switch {
	case counts[bus.Denied] == 0 && counts[bus.Permitted] > 0:
		return Finding{Result: Warned, Detail: "the servers permit everything to this user: no role limits it",
			Fix: `give each process a user of its role: "weir nats init" writes them`}, roleFound{unlimited: true}
	case counts[bus.Permitted] == 0:
		return Finding{Result: Failed, Detail: "the servers permit nothing that a role needs", Fix: permissionFix}, roleFound{}
	}
	var best difference
	for i, u := range candidates {
		if d := compare(u, acts, got); i == 0 || d.size() < best.size() {
			best = d
		}
	}
	if 2*len(best.missing) > best.expected {
		return Finding{Result: Failed, Fix: permissionFix + "; or name the cluster and the pool with --cluster and --pool",
			Detail: "this user has no role of cluster " + best.user.Cluster + " and pool " + best.user.Pool + untestedNodes(best.user.Node)}, roleFound{}
	}
	return best.finding(counts[bus.Untested]), roleFound{user: &best.user}
}

// untestedNodes returns what the search for a role leaves out.
func untestedNodes(node string) string {
	if node != "" {
		return ", also not as node " + node
	}
	return " (the roles of nodes are not tested: this machine has no name in the section \"agent\" of weir.yaml)"
}

// difference is how the tested permissions differ from those of a role.
type difference struct {
	user           roles.User
	expected       int      // tested permissions of the role
	missing, extra []string // acts
}

func (d difference) size() int { return len(d.missing) + len(d.extra) }

func compare(u roles.User, acts []bus.Act, got []bus.Permission) difference {
	d, p := difference{user: u}, u.Permissions()
	for i, a := range acts {
		direction := roles.Publish
		if a.Subscribes {
			direction = roles.Subscribe
		}
		expected := p.May(direction, a.Subject)
		if expected && got[i] != bus.Untested {
			d.expected++
		}
		switch text := fmt.Sprintf("%v to %s", direction, a.Subject); {
		case expected && got[i] == bus.Denied:
			d.missing = append(d.missing, text)
		case !expected && got[i] == bus.Permitted:
			d.extra = append(d.extra, text)
		}
	}
	return d
}

func (d difference) finding(untested int) Finding {
	name := fmt.Sprintf("%s (role %s)", d.user.Name(), d.user.Role)
	var wrong []string
	if len(d.missing) > 0 {
		wrong = append(wrong, "may not "+list(d.missing))
	}
	if len(d.extra) > 0 {
		wrong = append(wrong, "may "+list(d.extra)+", which its role may not")
	}
	switch {
	case wrong != nil:
		return Finding{Result: Failed, Detail: name + " " + strings.Join(wrong, "; "), Fix: permissionFix}
	case untested > 0:
		return Finding{Result: Unknown, Detail: fmt.Sprintf("%s has its %d tested permissions; %d others were not tested", name, d.expected, untested),
			Fix: "a test without an effect needs NATS 2.11 or later"}
	}
	return Finding{Result: OK, Detail: fmt.Sprintf("%s has all %d permissions of its role, and no other of those tested", name, d.expected)}
}

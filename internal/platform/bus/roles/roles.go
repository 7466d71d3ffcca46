package roles

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Role is a kind of user of the bus.
type Role string

// The roles. The zero value is no role.
const (
	Agent      Role = "agent"      // one node of a pool
	Pool       Role = "pool"       // bootstrap and autoscaler of a pool
	Harmonizer Role = "harmonizer" // harmonizer of a cluster
	Placer     Role = "placer"     // placer of a pool
	Scheduler  Role = "scheduler"  // scheduler of a pool that runs no rows: it speaks for all nodes of the pool
	Metrics    Role = "metrics"    // embedded metrics store of a cluster
	Notify     Role = "notify"     // sender of a cluster's events to webhooks
	Machines   Role = "machines"   // owner of a pool's local machines; only on the bus of a data folder
	LegacyDEA  Role = "legacydea"  // node of the classic protocol, which has no subject of its own
	Workflow   Role = "workflow"   // program that answers the requests of a pool's workflows
	Operator   Role = "operator"   // a person; gives orders
	Viewer     Role = "viewer"     // person or program that only reads
	Auth       Role = "auth"       // service that verifies agents
	Admin      Role = "admin"      // a person; creates, moves and removes streams
)

// All returns the roles in the order of the documents.
func All() []Role {
	return []Role{Agent, Pool, Harmonizer, Placer, Scheduler, Metrics, Notify, Machines, LegacyDEA, Workflow, Operator, Viewer, Auth, Admin}
}

// hasPool reports whether a user of the role belongs to one pool.
func (r Role) hasPool() bool {
	return r == Agent || r == Pool || r == Placer || r == Scheduler || r == Machines || r == Workflow
}

// hasNode reports whether a user of the role belongs to one node.
func (r Role) hasNode() bool { return r == Agent || r == LegacyDEA }

// readsPools reports whether a user of the role reads the streams of all pools of its cluster.
func (r Role) readsPools() bool { return r == Notify || r == Operator || r == Viewer }

// User is one user of the bus.
type User struct {
	Role    Role
	Cluster string
	Pool    string // of an agent, a pool, a placer, a scheduler, a workflow and an owner of machines
	Node    string // of an agent and a legacy DEA
	// Pools are the pools of the cluster. A notify, an operator and a viewer read the streams of these pools only.
	Pools []string
	// LegacyDEAs: nodes of the classic protocol exist. They share one subject, so each of them can claim any name.
	LegacyDEAs bool
	// Local: the bus is that of a data folder. It has groups "local:", and notify, operator and viewer read the streams of all pools.
	Local bool
	// Requests are the subjects of a pool's workflows: a pool sends requests on them, and a workflow answers.
	Requests []string
}

// Validate returns an error for a name that would give permissions to more than one user.
func (u User) Validate() error {
	if !slices.Contains(All(), u.Role) {
		return fmt.Errorf("role %.80q is unknown: want one of %v", string(u.Role), All())
	}
	if !names.Valid(u.Cluster) {
		return fmt.Errorf("cluster %.80q of role %s: %s", u.Cluster, u.Role, names.Rule)
	}
	pools := u.Pools
	if u.Role.hasPool() {
		pools = append(slices.Clone(pools), u.Pool)
	}
	for _, pool := range pools {
		if !names.Valid(pool) {
			return fmt.Errorf("pool %.80q of role %s: %s", pool, u.Role, names.Rule)
		}
	}
	if u.Role.hasNode() {
		if err := names.CheckToken("node", u.Node); err != nil {
			return fmt.Errorf("role %s: %w", u.Role, err)
		}
	}
	for _, subject := range u.Requests {
		if strings.ContainsAny(subject, " \t\r\n*>\"'\\{}") || strings.HasPrefix(subject, "$") || strings.HasPrefix(subject, "_") || subject == "" {
			return fmt.Errorf("subject %.80q of role %s: want a subject without wildcards that begins with a letter or digit", subject, u.Role)
		}
	}
	return nil
}

// Name returns the name of the user: CLUSTER.ROLE, then its pool and its node.
func (u User) Name() string {
	parts := []string{u.Cluster, string(u.Role)}
	if u.Role.hasPool() {
		parts = append(parts, u.Pool)
	}
	if u.Role.hasNode() {
		parts = append(parts, u.Node)
	}
	return strings.Join(parts, ".")
}

// InboxPrefix returns the prefix of the subjects on which the user receives answers. The agents of a pool share an account, and
// each has its own. Other users have the default of the client library.
func (u User) InboxPrefix() string {
	if u.Role.hasNode() {
		return u.expand("_INBOX_weir.{node}")
	}
	return "_INBOX"
}

// expand replaces the placeholders of a subject. A name that the user does not have becomes a wildcard.
func (u User) expand(subject string) string {
	or := func(name string) string {
		if name == "" {
			return "*"
		}
		return name
	}
	return strings.NewReplacer("{cluster}", or(u.Cluster), "{pool}", or(u.Pool), "{node}", or(u.Node)).Replace(subject)
}

package roles

// AccountStore has all streams and buckets. No daemon is a user of it: a reply that the server sends for a daemon stays in
// the daemon's own account. Servers keep the streams under this name on their disks.
const AccountStore = "WEIR"

// AccountAuth is the account to which the servers send unknown users.
const AccountAuth = "AUTH"

// AccountSystem is the servers' own account.
const AccountSystem = "SYS"

// Account returns the account of the user: one for each role of a cluster, and for each pool one for its autoscaler and
// bootstrap, one for its placer or scheduler, and one for all of its agents. An account is a border: a user can reach others only by the
// crossings of its account.
//
// On the bus of a data folder the clusters and pools are not known beforehand, so there a role has one account for all of them.
func (u User) Account() string {
	if u.Local {
		u.Cluster, u.Pool = "*", "*"
	}
	switch u.Role {
	case Admin:
		return AccountStore
	case Auth:
		return AccountAuth
	case Agent:
		return "AGENTS:" + u.Cluster + ":" + u.Pool
	case Pool:
		return "POOL:" + u.Cluster + ":" + u.Pool
	case Placer:
		return "PLACER:" + u.Cluster + ":" + u.Pool
	case Scheduler:
		return "SCHEDULER:" + u.Cluster + ":" + u.Pool
	case Workflow:
		return "WORKFLOW:" + u.Cluster + ":" + u.Pool
	case Machines:
		return "MACHINES:" + u.Cluster + ":" + u.Pool
	case Harmonizer:
		return "HARMONIZER:" + u.Cluster
	case Metrics:
		return "METRICS:" + u.Cluster
	case Notify:
		return "NOTIFY:" + u.Cluster
	case Operator:
		return "OPERATOR:" + u.Cluster
	case Viewer:
		return "VIEWER:" + u.Cluster
	}
	return "LEGACY:" + u.Cluster
}

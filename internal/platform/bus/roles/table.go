package roles

import (
	"slices"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Answers is how many answers the publisher of a message expects.
type Answers int

const (
	NoAnswer  Answers = iota // an event
	OneAnswer                // a request
	Several                  // a request with several answers
)

// Row is one subject and its roles. In the subject, {cluster}, {pool} and {node} stand for a user's own names, or for
// any name if the user lacks it.
type Row struct {
	Subject   string
	Publish   []Role
	Subscribe []Role
	Answers   Answers
	Legacy    bool // only if legacy DEAs exist
	Content   string
}

// Rows returns the table of subjects, without those of streams and buckets.
func Rows() []Row {
	const c = "weir.{cluster}."
	daemons, people := []Role{Harmonizer, Placer, Pool}, []Role{Operator, Viewer}
	nodes := []Role{Harmonizer, Placer, Pool}
	// A pool has agents and a placer, or a scheduler, which speaks for all of its nodes.
	speakers, schedulers := []Role{Agent, Scheduler}, []Role{Placer, Scheduler}
	return []Row{
		{c + "heartbeat.{pool}.{node}", speakers, nodes, NoAnswer, false, "heartbeat of a node"},
		{c + "exited.{pool}.{node}", []Role{Agent}, []Role{Harmonizer, Placer}, NoAnswer, false, "end of an app instance"},
		{c + "node.{pool}.{node}", speakers, []Role{Placer, Pool}, NoAnswer, false, "facts of a node"},
		{c + "lifecycle.{pool}.{node}", []Role{Agent}, []Role{Pool}, NoAnswer, false, "hint of a node about itself"},
		{c + "lifecycle.{pool}", []Role{Operator}, []Role{Pool}, NoAnswer, false, "hint about a machine of the pool"},
		{c + "announce", daemons, speakers, NoAnswer, false, "each node answers with its heartbeat and facts"},

		{c + "agent.{pool}.{node}.start", []Role{Placer}, []Role{Agent}, OneAnswer, false, "start of an app instance"},
		{c + "agent.{pool}.{node}.stop", []Role{Placer}, []Role{Agent}, OneAnswer, false, "stop of an app instance"},
		{c + "agent.{pool}.{node}.logs", []Role{Operator}, []Role{Agent}, OneAnswer, false, "output of an app instance"},
		{c + "agent.{pool}.{node}.cordon", []Role{Pool}, speakers, OneAnswer, false, "no new app instances"},
		{c + "agent.{pool}.{node}.gone", []Role{Pool}, []Role{Scheduler}, NoAnswer, false, "the machine has ended"},
		{c + "agent.{pool}.{node}.claim", []Role{Agent}, []Role{Agent}, OneAnswer, false, "agent that starts, to another agent of its node"},
		{c + "agent.{pool}.{node}.fence", []Role{Pool}, []Role{Agent}, OneAnswer, false, "end of all app instances"},

		{"health.start", []Role{Harmonizer}, []Role{Harmonizer, Placer}, NoAnswer, false, "nudge: start"},
		{"health.stop", []Role{Harmonizer}, []Role{Harmonizer, Placer}, NoAnswer, false, "nudge: stop"},
		{"cloudcontrollers.hm.requests", nil, []Role{Harmonizer}, NoAnswer, false, "nudge in the classic form, without a partition"},
		{"cloudcontrollers.hm.requests.*", []Role{Harmonizer}, []Role{Harmonizer, Placer}, NoAnswer, false, "nudge in the classic form"},
		{"droplet.updated", []Role{Admin, Operator}, []Role{Harmonizer}, NoAnswer, false, "an app has changed"},
		{"healthmanager.status", people, []Role{Harmonizer}, Several, false, "classic request"},
		{"healthmanager.health", people, []Role{Harmonizer}, Several, false, "classic request"},
		{"healthmanager.droplet", people, []Role{Harmonizer}, Several, false, "classic request"},
		{"cloudcontroller.bulk.credentials.*", []Role{Harmonizer}, nil, OneAnswer, false, "request to the cloud controller"},
		{"vcap.component.announce", []Role{Harmonizer}, nil, NoAnswer, false, "announcement to collectors"},
		{"vcap.component.discover", nil, []Role{Harmonizer}, NoAnswer, false, "request of collectors"},

		{c + "counts.{pool}", []Role{Harmonizer}, []Role{Operator, Pool, Viewer}, NoAnswer, false, "instance counts"},
		{c + "counts.{pool}.get", []Role{Operator, Pool, Viewer}, []Role{Harmonizer}, Several, false, "request for instance counts"},
		{c + "harmonizer.status", people, []Role{Harmonizer}, OneAnswer, false, "status"},
		{c + "harmonizer.order", []Role{Operator}, []Role{Harmonizer}, OneAnswer, false, "order"},
		{c + "harmonizer.events", []Role{Harmonizer}, []Role{Notify, Operator, Viewer}, NoAnswer, false, "findings, stored"},
		{c + "harmonizer.loopback", []Role{Harmonizer}, []Role{Harmonizer}, NoAnswer, false, "loopback probe"},
		{c + "placer.{pool}.confirmed", []Role{Placer}, []Role{Harmonizer}, NoAnswer, false, "nudges that the placer has"},
		{c + "placer.{pool}.placed", []Role{Harmonizer}, []Role{Placer}, OneAnswer, false, "which copies the placer put on their nodes"},
		{c + "placer.{pool}.places", []Role{Pool}, schedulers, OneAnswer, false, "where copies fit"},
		{c + "placer.{pool}.state", schedulers, []Role{Harmonizer, Pool}, NoAnswer, false, "whether the scheduler runs rows, and is current"},
		{c + "placer.{pool}.never", []Role{Placer}, []Role{Harmonizer}, NoAnswer, false, "copies that no machine can hold"},
		{c + "placer.{pool}.limited", []Role{Placer, Pool}, []Role{Harmonizer}, NoAnswer, false, "nodes that lose messages, since they send too much"},
		{c + "placer.{pool}.pending", people, schedulers, OneAnswer, false, "waiting app instances"},
		{c + "health.{pool}.events", []Role{Pool}, []Role{Notify, Operator, Viewer}, NoAnswer, false, "findings, stored"},
		{c + "health.{pool}.loopback", []Role{Pool}, []Role{Pool}, NoAnswer, false, "loopback probe"},
		{c + "health.{pool}.status", people, []Role{Pool}, OneAnswer, false, "status of node health"},
		{c + "health.{pool}.order", []Role{Operator}, []Role{Pool}, OneAnswer, false, "order to node health"},
		{c + "autoscaler.{pool}.plan", people, []Role{Pool}, OneAnswer, false, "what the next tick would do"},
		{c + "autoscaler.{pool}.nodes", people, []Role{Pool}, OneAnswer, false, "facts of the nodes"},
		{c + "bootstrap.{pool}.status", people, []Role{Pool}, OneAnswer, false, "processes"},
		{c + "bootstrap.{pool}.logs", []Role{Operator}, []Role{Pool}, OneAnswer, false, "output of a signal"},
		{c + "bootstrap.{pool}.restart", []Role{Operator}, []Role{Pool}, OneAnswer, false, "restart of a signal"},
		{c + "metrics.write.pool_{pool}", []Role{Pool}, []Role{Metrics}, OneAnswer, false, "values of a pool for the embedded metrics store"},
		{c + "metrics.write.placer_{pool}", schedulers, []Role{Metrics}, OneAnswer, false, "values of a placer or a scheduler"},
		{c + "metrics.write.harmonizer", []Role{Harmonizer}, []Role{Metrics}, OneAnswer, false, "values of the harmonizer"},
		{c + "metrics.write.operator", []Role{Operator}, []Role{Metrics}, OneAnswer, false, "values by hand"},
		{c + "metrics.limited", []Role{Metrics}, []Role{Harmonizer}, NoAnswer, false, "writers that lose messages, since they send too much"},
		{c + "metrics.window", []Role{Operator, Pool, Viewer}, []Role{Metrics}, OneAnswer, false, "request for values"},
		{c + "decision.{pool}", []Role{Admin, Pool}, []Role{Operator, Pool, Viewer}, NoAnswer, false, "record of a tick, stored in the ledger"},
		{c + "decision.{pool}.part", []Role{Admin, Pool}, nil, NoAnswer, false, "part of a long record, stored in the ledger"},
		{c + "summary.{pool}", []Role{Pool}, []Role{Notify, Operator, Viewer}, NoAnswer, false, "summary of a tick, stored"},
		{c + "evidence.{pool}.*", []Role{Admin, Pool}, nil, NoAnswer, false, "evidence about a node, stored"},
		{c + "notice", []Role{Notify}, nil, NoAnswer, false, "finding as an event for webhooks, stored"},
		{c + "notice.{pool}", []Role{Notify}, nil, NoAnswer, false, "decision or order as an event for webhooks, stored"},

		{"dea.heartbeat", []Role{LegacyDEA}, nodes, NoAnswer, true, "heartbeat of any legacy DEA"},
		{"droplet.exited", []Role{LegacyDEA}, []Role{Harmonizer, Placer}, NoAnswer, true, "end of an app instance on any legacy DEA"},
		{"healthmanager.start", daemons, []Role{LegacyDEA}, NoAnswer, true, "each legacy DEA answers with its heartbeat"},
		{"dea.{node}.>", nil, []Role{LegacyDEA}, NoAnswer, true, "commands of a cloud controller"},

		{"$JS.API.>", []Role{Admin}, nil, Several, false, "all of JetStream"},
		{"$JS.FC.>", []Role{Admin}, nil, NoAnswer, false, "flow control of consumers"},
		{"$JS.SNAPSHOT.>", []Role{Admin}, nil, OneAnswer, false, "chunks of a backup and of a restore"},
		{"$KV.>", []Role{Admin}, nil, OneAnswer, false, "all keys"},
		{"$SYS.REQ.USER.INFO", []Role{Admin, Auth, Harmonizer, Operator, Placer, Pool, Scheduler, Viewer}, nil, OneAnswer, false,
			"what a server holds about its own client, and the server's time"},
		{"$SYS.REQ.USER.AUTH", nil, []Role{Auth}, NoAnswer, false, "request of a server to verify an agent"},
		{"$SYS._INBOX.*.*", []Role{Auth}, nil, NoAnswer, false, "answer to a server"},
	}
}

// Key is a set of keys of one bucket and its roles. Its placeholders are those of a Row.
type Key struct {
	Bucket  func(cluster, pool string) string
	Name    string
	Read    []Role
	Write   []Role
	Content string
}

// ofPool reports whether each pool has a bucket of its own for the keys.
func (k Key) ofPool() bool { return k.Bucket("c", "a") != k.Bucket("c", "b") }

// Keys returns the table of keys. An admin creates the buckets with the key "schema".
func Keys() []Key {
	one := func(name func(string) string) func(string, string) string {
		return func(cluster, _ string) string { return name(cluster) }
	}
	pool, placer := names.PoolBucket, names.PlacerBucket
	harmonizer, auth, notify, apps := one(names.HarmonizerBucket), one(names.AuthBucket), one(names.NotifyBucket), one(names.AppsBucket)
	own := func(bucket func(string, string) string, name string, r Role, content string) Key {
		return Key{bucket, name, []Role{r}, []Role{r}, content}
	}
	return []Key{
		{pool, ">", []Role{Operator, Pool, Viewer}, nil, "all keys"},
		own(pool, "lease", Pool, "lease of a pool"),
		own(pool, "state", Pool, "state between two ticks"),
		own(pool, "health", Pool, "state of node health"),
		own(pool, "drain.>", Pool, "drain records"),
		own(pool, "trial.>", Pool, "trials of shadows"),
		own(pool, "seen.>", Pool, "first-seen digests of releases"),
		own(pool, "alarm", Pool, "damaged keys that a pool has read"),
		{pool, "order.>", []Role{Pool}, []Role{Operator, Pool}, "orders, deleted when they end"},
		{pool, "accept.>", []Role{Pool}, []Role{Operator}, "accepted damage, and accepted new digests of releases"},

		{placer, ">", []Role{Operator, Placer, Viewer}, nil, "all keys"},
		{placer, "schema", []Role{Scheduler}, nil, "version of the bucket"},
		{placer, "lease", []Role{Placer, Scheduler}, []Role{Placer, Scheduler}, "lease of a placer or a scheduler"},
		own(placer, "assignment.>", Placer, "assignments of a placer"),
		own(placer, "aside.>", Placer, "unreadable assignments"),
		own(placer, "restored", Placer, "mark of a restored backup"),

		{harmonizer, ">", []Role{Harmonizer, Operator, Viewer}, nil, "all keys"},
		own(harmonizer, "lease", Harmonizer, "lease of the harmonizer"),
		own(harmonizer, "memory.>", Harmonizer, "memory of the harmonizer"),
		own(harmonizer, "aside.>", Harmonizer, "unreadable memory"),
		own(harmonizer, "alarm", Harmonizer, "damaged keys that the harmonizer has read"),
		{harmonizer, "accept.>", []Role{Harmonizer}, []Role{Operator}, "accepted damage of the applications"},

		{auth, ">", []Role{Auth, Operator, Viewer}, nil, "all keys"},
		own(auth, "identity.>", Auth, "public key of each agent"),

		{notify, ">", []Role{Notify, Operator, Viewer}, nil, "all keys"},
		own(notify, "lease", Notify, "lease of weir notify"),
		own(notify, "position.>", Notify, "how far each target has received the events"),

		{apps, ">", []Role{Harmonizer, Operator, Placer, Viewer}, nil, "all applications"},
		{apps, "*", nil, []Role{Operator}, "expected state of an application"},
	}
}

// watches returns the subjects on which the user receives changes of a bucket: of the headers that the bucket republishes.
func (u User) watches() []string {
	if u.Role == Harmonizer || u.Role == Placer {
		return []string{names.ChangedSubject(u.Cluster, names.AppsBucket(u.Cluster))}
	}
	return nil
}

// Stream is a stream of each pool, or of the cluster, and its roles. Its writers publish on the subjects of its rows, and
// their subscribers receive what the stream republishes.
type Stream struct {
	Name     func(cluster, pool string) string
	Subjects []string // with placeholders
	Read     []Role
	Content  string
	Whole    bool // one stream of the cluster; its name does not depend on the pool
}

// Streams returns the table of streams.
func Streams() []Stream {
	readers := []Role{Operator, Pool, Viewer}
	return []Stream{
		{names.LedgerStream, []string{"weir.{cluster}.decision.{pool}", "weir.{cluster}.decision.{pool}.part"}, readers, "ledger of ticks", false},
		{names.SummaryStream, []string{"weir.{cluster}.summary.{pool}"}, []Role{Notify, Operator, Pool, Viewer}, "summaries of ticks", false},
		{names.EvidenceStream, []string{"weir.{cluster}.evidence.{pool}.*"}, readers, "evidence about nodes", false},
		{findings, []string{"weir.{cluster}.harmonizer.events", "weir.{cluster}.health.{pool}.events"}, []Role{Notify, Operator, Viewer}, "findings", true},
		{notices, []string{"weir.{cluster}.notice", "weir.{cluster}.notice.{pool}"}, []Role{Notify, Operator, Viewer}, "events for webhooks", true},
	}
}

func findings(cluster, _ string) string { return names.FindingsStream(cluster) }

func notices(cluster, _ string) string { return names.NoticesStream(cluster) }

// isStored reports whether a stream stores the messages of a row.
func (r Row) isStored() bool {
	return slices.ContainsFunc(Streams(), func(s Stream) bool { return slices.Contains(s.Subjects, r.Subject) })
}

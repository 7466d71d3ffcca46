package roles_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
)

// users are one user of each role, in a cluster with two pools.
func users(legacy bool) (all []roles.User) {
	for _, r := range roles.All() {
		all = append(all, roles.User{Role: r, Cluster: "prod", Pool: "web", Node: "i-01", Pools: []string{"batch", "web"}, LegacyDEAs: legacy})
		switch r {
		case roles.Harmonizer, roles.Operator, roles.Viewer, roles.Auth, roles.Admin, roles.Metrics, roles.Notify:
			all[len(all)-1].Pool, all[len(all)-1].Node = "", ""
		case roles.Pool, roles.Placer, roles.Scheduler:
			all[len(all)-1].Node = ""
		}
	}
	return all
}

// of returns the user of a role.
func of(t *testing.T, r roles.Role) roles.User {
	t.Helper()
	i := slices.IndexFunc(users(false), func(u roles.User) bool { return u.Role == r })
	if i < 0 {
		t.Fatalf("no user of role %s", r)
	}
	return users(false)[i]
}

// overlap reports whether a subject matches both patterns.
func overlap(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		switch {
		case x[i] == ">" || y[i] == ">":
			return true
		case x[i] != y[i] && x[i] != "*" && y[i] != "*":
			return false
		}
	}
	return len(x) == len(y)
}

func TestUsersAreValidAndHaveDistinctNames(t *testing.T) {
	seen := map[string]bool{}
	for _, u := range users(true) {
		if err := u.Validate(); err != nil {
			t.Errorf("%s: %v", u.Role, err)
		}
		if seen[u.Name()] {
			t.Errorf("two users have the name %s", u.Name())
		}
		seen[u.Name()] = true
	}
	for _, name := range []string{"prod.pool.web", "prod.agent.web.i-01", "prod.harmonizer"} {
		if !seen[name] {
			t.Errorf("no user has the name %s: %v", name, seen)
		}
	}
}

// A name with a wildcard or a dot would give a user the permissions of others.
func TestNamesThatAreNoTokenAreRefused(t *testing.T) {
	for _, u := range []roles.User{
		{}, {Role: "root", Cluster: "prod"},
		{Role: roles.Pool, Cluster: "prod"}, {Role: roles.Pool, Cluster: "prod", Pool: "*"}, {Role: roles.Pool, Cluster: ">", Pool: "web"},
		{Role: roles.Agent, Cluster: "prod", Pool: "web"}, {Role: roles.Agent, Cluster: "prod", Pool: "web", Node: "a.b"},
		{Role: roles.Agent, Cluster: "prod", Pool: "web", Node: ">"}, {Role: roles.LegacyDEA, Cluster: "prod", Node: "*"},
		{Role: roles.Viewer, Cluster: "prod", Pools: []string{"web", "*"}},
		{Role: roles.Pool, Cluster: "prod", Pool: "web", Requests: []string{"$JS.API.>"}},
		{Role: roles.Pool, Cluster: "prod", Pool: "web", Requests: []string{"a.*"}},
		{Role: roles.Pool, Cluster: "prod", Pool: "web", Requests: []string{"a\"b"}},
		{Role: roles.Pool, Cluster: "prod", Pool: "web", Requests: []string{"_INBOX.x"}},
	} {
		if err := u.Validate(); err == nil {
			t.Errorf("%+v is valid", u)
		}
	}
}

// Each answer reaches its request, and no agent reads the answers of another agent of its account.
func TestInboxesArePrivate(t *testing.T) {
	for _, u := range users(true) {
		p, own := u.Permissions(), u.InboxPrefix()+".>"
		if !p.May(roles.Subscribe, own) {
			t.Errorf("%s does not read its inbox %s", u.Name(), own)
		}
		for _, subject := range slices.Concat(p.Subscribe, p.Publish) {
			if strings.HasPrefix(subject, "_") && subject != own || overlap(subject, "_R_.>") {
				t.Errorf("%s has %s, an inbox of others", u.Name(), subject)
			}
		}
	}
	other := of(t, roles.Agent)
	other.Node = "i-02"
	if of(t, roles.Agent).Permissions().May(roles.Subscribe, other.InboxPrefix()+".x") {
		t.Error("an agent reads the inbox of another")
	}
	for _, row := range roles.Rows() {
		for _, r := range row.Subscribe {
			if row.Answers != roles.NoAnswer && !row.Legacy && !of(t, r).Permissions().Respond {
				t.Errorf("%s: %s may not answer", row.Subject, r)
			}
		}
	}
}

// Only an admin creates, updates, purges and deletes, and only an admin has a consumer: a consumer delivers to any subject.
func TestJetStreamIsBounded(t *testing.T) {
	for _, u := range users(true) {
		for _, subject := range u.Permissions().Publish {
			jetStream := strings.HasPrefix(subject, "$JS.") || strings.HasPrefix(subject, "$KV.")
			if (u.Role == roles.Agent || u.Role == roles.LegacyDEA || u.Role == roles.Metrics) && jetStream {
				t.Errorf("%s publishes %s, but needs no stream", u.Name(), subject)
			}
			for _, api := range []string{"STREAM.UPDATE.x", "STREAM.DELETE.x", "STREAM.PURGE.x", "STREAM.MSG.DELETE.x", "STREAM.MSG.GET.x", "STREAM.CREATE.x",
				"CONSUMER.CREATE.x", "CONSUMER.DURABLE.CREATE.x.y", "CONSUMER.MSG.NEXT.x.y"} {
				if u.Role != roles.Admin && overlap(subject, "$JS.API."+api) {
					t.Errorf("%s publishes %s, which includes %s", u.Name(), subject, api)
				}
			}
		}
	}
}

// Two pools share no subject but those of the cluster.
func TestPoolsAreApart(t *testing.T) {
	web, batch := of(t, roles.Pool), of(t, roles.Pool)
	batch.Pool = "batch"
	shared := []string{"$JS.API.INFO", "$SYS.REQ.USER.INFO", "weir.prod.announce", "weir.prod.metrics.window", "_INBOX.>"} // each in the pool's own account
	for _, a := range web.Permissions().Publish {
		for _, b := range batch.Permissions().Publish {
			if overlap(a, b) && !slices.Contains(shared, a) {
				t.Errorf("pool web publishes %s, pool batch %s", a, b)
			}
		}
	}
}

// Each bucket has one role that writes all of its keys, beside orders, acceptances and applications of operators.
func TestBucketsHaveAnOwner(t *testing.T) {
	owners := map[string][]roles.Role{}
	for _, key := range roles.Keys() {
		for _, r := range key.Write {
			if r == roles.Scheduler {
				r = roles.Placer // a pool has only one of both
			}
			if bucket := key.Bucket("prod", "web"); r != roles.Operator && !slices.Contains(owners[bucket], r) {
				owners[bucket] = append(owners[bucket], r)
			}
		}
	}
	for bucket, all := range owners {
		if len(all) != 1 {
			t.Errorf("bucket %s has the owners %v, want one", bucket, all)
		}
	}
	if len(owners) != 5 { // that of the applications has operators only
		t.Errorf("buckets %v, want two of the pool and three of the cluster", owners)
	}
}

// An agent speaks for its own node only.
func TestAgentSpeaksForItsOwnNode(t *testing.T) {
	p := of(t, roles.Agent).Permissions()
	want := []string{
		"_INBOX_weir.i-01.>", "weir.prod.agent.web.i-01.claim",
		"weir.prod.exited.web.i-01", "weir.prod.heartbeat.web.i-01", "weir.prod.lifecycle.web.i-01", "weir.prod.node.web.i-01",
	}
	if !slices.Equal(p.Publish, want) {
		t.Errorf("an agent publishes %q, want %q", p.Publish, want)
	}
	want = []string{
		"_INBOX_weir.i-01.>", "weir.prod.agent.web.i-01.claim",
		"weir.prod.agent.web.i-01.cordon", "weir.prod.agent.web.i-01.fence", "weir.prod.agent.web.i-01.logs",
		"weir.prod.agent.web.i-01.start", "weir.prod.agent.web.i-01.stop", "weir.prod.announce",
	}
	if !slices.Equal(p.Subscribe, want) {
		t.Errorf("an agent subscribes to %q, want %q", p.Subscribe, want)
	}
}

// A scheduler speaks for all nodes of its own pool and receives their cordons. It starts and stops nothing, and reads no application.
func TestSchedulerSpeaksForTheNodesOfItsPool(t *testing.T) {
	p := of(t, roles.Scheduler).Permissions()
	want := []string{
		"$JS.API.DIRECT.GET.KV_weir-placer:prod:web.$KV.weir-placer:prod:web.lease", "$JS.API.DIRECT.GET.KV_weir-placer:prod:web.$KV.weir-placer:prod:web.schema",
		"$JS.API.INFO", "$JS.API.STREAM.INFO.KV_weir-placer:prod:web", "$KV.weir-placer:prod:web.lease", "$SYS.REQ.USER.INFO", "_INBOX.>",
		"weir.prod.heartbeat.web.*", "weir.prod.metrics.write.placer_web", "weir.prod.node.web.*", "weir.prod.placer.web.state",
	}
	if !slices.Equal(p.Publish, want) {
		t.Errorf("a scheduler publishes %q, want %q", p.Publish, want)
	}
	want = []string{
		"_INBOX.>", "weir.prod.agent.web.*.cordon", "weir.prod.agent.web.*.gone", "weir.prod.announce", "weir.prod.placer.web.pending", "weir.prod.placer.web.places",
	}
	if !slices.Equal(p.Subscribe, want) {
		t.Errorf("a scheduler subscribes to %q, want %q", p.Subscribe, want)
	}
}

// No two users have one account, but the agents of a pool, and everybody but an admin is outside that of the streams.
func TestAccounts(t *testing.T) {
	byAccount := map[string]string{}
	for _, u := range users(true) {
		if other := byAccount[u.Account()]; other != "" {
			t.Errorf("%s and %s have the account %s", u.Name(), other, u.Account())
		}
		byAccount[u.Account()] = u.Name()
		batch := u
		batch.Pool = "batch"
		if u.Pool != "" && u.Role != roles.LegacyDEA && batch.Account() == u.Account() {
			t.Errorf("%s has the account %s in each pool", u.Role, u.Account())
		}
		if (u.Account() == roles.AccountStore) != (u.Role == roles.Admin) {
			t.Errorf("%s has the account %s", u.Name(), u.Account())
		}
	}
}

// A crossing has an exporter and importers that exist, and an importer may do what crosses.
func TestCrossings(t *testing.T) {
	all := users(true)
	accounts := map[string]roles.User{}
	for _, u := range all {
		accounts[u.Account()] = u
	}
	crossings := roles.Crossings(all)
	if len(crossings) < 100 {
		t.Errorf("%d crossings, want at least 100", len(crossings))
	}
	for i, c := range crossings {
		if _, ok := accounts[c.From]; !ok || len(c.To) == 0 || slices.Contains(c.To, c.From) {
			t.Errorf("%+v: want an exporter and other importers", c)
		}
		if i > 0 && c.From == crossings[i-1].From && c.Subject == crossings[i-1].Subject && c.Service == crossings[i-1].Service {
			t.Errorf("%+v occurs twice", c)
		}
		for _, to := range c.To {
			u, d := accounts[to], roles.Subscribe
			if c.Service {
				d = roles.Publish
			}
			if !u.Permissions().May(d, c.Probe()) && u.Node == "" {
				t.Errorf("%s imports %s and may not %v", u.Name(), c.Subject, d)
			}
		}
	}
}

// Without legacy DEAs no daemon receives what any node can send in the name of another.
func TestLegacySubjectsNeedTheSwitch(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		for _, u := range users(legacy) {
			for _, d := range []roles.Direction{roles.Publish, roles.Subscribe} {
				for _, subject := range []string{"dea.heartbeat", "droplet.exited", "healthmanager.start"} {
					if u.Role != roles.LegacyDEA && !legacy && u.Permissions().May(d, subject) {
						t.Errorf("%s may %v %s without legacy DEAs", u.Name(), d, subject)
					}
				}
			}
		}
	}
	harmonizer := roles.User{Role: roles.Harmonizer, Cluster: "prod", LegacyDEAs: true}
	if !harmonizer.Permissions().May(roles.Subscribe, "dea.heartbeat") {
		t.Error("a harmonizer with legacy DEAs does not receive their heartbeats")
	}
}

// A probe is one subject that its permissions include.
func TestProbesAreWithinThePermissions(t *testing.T) {
	for _, u := range users(true) {
		p := u.Permissions()
		if len(u.Probes()) == 0 {
			t.Errorf("%s has no probe", u.Name())
		}
		for _, x := range u.Probes() {
			if strings.ContainsAny(x.Subject, "*>") || !p.May(x.Direction, x.Subject) {
				t.Errorf("%s: probe %v %s is not one of its permissions", u.Name(), x.Direction, x.Subject)
			}
			if x.Harmless && x.Direction == roles.Publish && !strings.HasPrefix(x.Subject, "$JS.API.") {
				t.Errorf("%s: probe %s is a message to a process", u.Name(), x.Subject)
			}
		}
	}
}

// Includes agrees with overlap: a subject within an included pattern is within the wide one.
func TestIncludes(t *testing.T) {
	for _, c := range []struct {
		wide, pattern string
		want          bool
	}{
		{"a.*", "a.b", true}, {"a.>", "a.b.c", true}, {"a.>", "a", false}, {"a.*", "a.>", false}, {"a.>", "a.>", true}, {"a.*", "a.*", true},
		{"a.b", "a.*", false}, {"a.*.c", "a.b.c", true}, {"a.*", "a.b.c", false}, {">", "a", true}, {"a.*.>", "a.>", false}, {"a.>", "a.*.>", true},
	} {
		if got := roles.Includes(c.wide, c.pattern); got != c.want {
			t.Errorf("Includes(%s, %s) = %v, want %v", c.wide, c.pattern, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.SampledFrom([]string{"a", "b", "*"})
		pattern := rapid.Custom(func(t *rapid.T) string {
			tokens := rapid.SliceOfN(token, 1, 3).Draw(t, "tokens")
			if rapid.Bool().Draw(t, "rest") {
				tokens = append(tokens, ">")
			}
			return strings.Join(tokens, ".")
		})
		wide, narrow := pattern.Draw(t, "wide"), pattern.Draw(t, "narrow")
		subject := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 1, 5).Draw(t, "subject"), ".")
		if roles.Includes(wide, narrow) && roles.Includes(narrow, subject) && !roles.Includes(wide, subject) {
			t.Errorf("%s includes %s, which includes %s, but %s does not", wide, narrow, subject, wide)
		}
	})
}

package roles

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Direction is what a user does with a subject.
type Direction int

const (
	Publish   Direction = iota + 1 // publish or request
	Subscribe                      // subscribe, with or without a queue group
)

// String returns "publish" or "subscribe".
func (d Direction) String() string {
	if d == Subscribe {
		return "subscribe"
	}
	return "publish"
}

// Act is one permission of a user.
type Act struct {
	Direction Direction
	Subject   string // may have wildcards
	Answers   Answers
	// Reads: a request that changes nothing on the server.
	Reads bool
}

// Acts returns all permissions of the user, without duplicates, in order of direction and subject.
func (u User) Acts() []Act {
	all := u.storeActs()
	for _, row := range rows() {
		if !row.isStored() {
			all = append(all, u.ofRow(row)...)
		}
	}
	for _, subject := range u.Requests {
		act := Act{Publish, subject, OneAnswer, false}
		if u.Role == Workflow {
			act = Act{Subscribe, subject, NoAnswer, false}
		}
		all = append(all, act)
	}
	// On its own inbox a user receives answers, and the reports of messages that the servers trace for it.
	inbox := u.InboxPrefix() + ".>"
	return inOrder(append(all, Act{Subscribe, inbox, NoAnswer, false}, Act{Publish, inbox, NoAnswer, false}))
}

// storeActs returns what the user does with streams and buckets.
func (u User) storeActs() []Act {
	all := append(u.ofBuckets(), u.ofStreams()...)
	if len(all) > 0 {
		all = append(all, read("$JS.API.INFO"))
	}
	for _, subject := range u.watches() {
		all = append(all, Act{Subscribe, subject, NoAnswer, false})
	}
	for _, row := range rows() {
		if row.isStored() {
			all = append(all, u.ofRow(row)...)
		}
	}
	return inOrder(all)
}

func inOrder(all []Act) []Act {
	for i := range all {
		all[i].Subject = whole(all[i].Subject)
	}
	slices.SortFunc(all, func(a, b Act) int {
		return cmp.Or(cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Subject, b.Subject), cmp.Compare(b.Answers, a.Answers))
	})
	return slices.CompactFunc(all, func(a, b Act) bool { return a.Direction == b.Direction && a.Subject == b.Subject })
}

func read(subject string) Act { return Act{Publish, subject, OneAnswer, true} }

// sends and receives report whether the user is one of a row's. Where the table names no role, it is a component of Cloud
// Foundry, whose account is that of the legacy DEAs.
func (r Row) sends(u User) bool    { return r.includes(r.Publish, u) }
func (r Row) receives(u User) bool { return r.includes(r.Subscribe, u) }

func (r Row) includes(list []Role, u User) bool {
	switch {
	case r.Legacy && !u.LegacyDEAs && u.Role != LegacyDEA, r.isLocal() && !u.Local && u.Role != Machines:
		return false
	case list == nil:
		return u.Role == LegacyDEA && !r.isAPI()
	}
	return slices.Contains(list, u.Role)
}

// isAPI reports whether the row is an interface of the servers.
func (r Row) isAPI() bool { return strings.HasPrefix(r.Subject, "$") }

// ofRow returns the acts of one row. A subscriber of stored messages receives what the stream republishes. Answers need no
// permission of their own: see Permissions.Respond.
func (u User) ofRow(row Row) (acts []Act) {
	subject, answers := u.expand(row.Subject), row.Answers
	if row.isStored() {
		answers = OneAnswer // an acknowledgement
	}
	if row.sends(u) && row.Publish != nil {
		acts = append(acts, Act{Publish, subject, answers, false})
	}
	if row.receives(u) && row.Subscribe != nil {
		if row.isStored() {
			subject = names.LiveSubject(u.Cluster, subject)
		}
		acts = append(acts, Act{Subscribe, subject, NoAnswer, false})
	}
	return acts
}

// ofBuckets returns the acts on keys, and those that opening the buckets needs. A request for a message of the leader is not
// one of them: it names the key in its body, so it would read all keys of the bucket.
func (u User) ofBuckets() (acts []Act) {
	for _, key := range Keys() {
		reads, writes := slices.Contains(key.Read, u.Role), slices.Contains(key.Write, u.Role)
		if !reads && !writes {
			continue
		}
		for _, pool := range u.poolsOf(!key.ofPool()) {
			bucket := key.Bucket(u.Cluster, pool)
			stream, subject := "KV_"+bucket, "$KV."+bucket+"."+u.expand(key.Name)
			acts = append(acts, read("$JS.API.STREAM.INFO."+stream))
			if writes {
				acts = append(acts, Act{Publish, subject, OneAnswer, false})
			}
			if reads {
				acts = append(acts, read("$JS.API.DIRECT.GET."+stream+"."+subject))
			}
			if reads && key.Name == ">" { // a batch names the keys in its body
				acts = append(acts, Act{Publish, "$JS.API.DIRECT.GET." + stream, Several, true})
			}
		}
	}
	return acts
}

// poolsOf returns the pools whose buckets and streams the user reaches; one without a name for those of the whole cluster.
func (u User) poolsOf(whole bool) []string {
	switch {
	case whole:
		return []string{""}
	case u.Role.hasPool():
		return []string{u.Pool}
	case u.Local:
		return []string{"*"}
	}
	return u.Pools
}

// ofStreams returns the acts on the streams of pools and of the cluster. A direct get by sequence reads all subjects of the
// stream, which are the pool's own, or findings.
func (u User) ofStreams() (acts []Act) {
	for _, s := range Streams() {
		if !slices.Contains(s.Read, u.Role) {
			continue
		}
		for _, pool := range u.poolsOf(s.Whole) {
			stream, of := s.Name(u.Cluster, pool), u
			of.Pool = pool
			acts = append(acts, read("$JS.API.STREAM.INFO."+stream), Act{Publish, "$JS.API.DIRECT.GET." + stream, Several, true})
			for _, subject := range s.Subjects {
				acts = append(acts, read("$JS.API.DIRECT.GET."+stream+"."+of.expand(subject)))
			}
		}
	}
	if u.Role.readsPools() {
		acts = append(acts, read("$JS.API.STREAM.NAMES"))
	}
	return acts
}

// Permissions are the subjects that a user may publish and subscribe to. All others are forbidden.
type Permissions struct {
	Publish, Subscribe []string
	// Respond: the user also answers the requests that it receives, each on the reply subject of the request.
	Respond bool
}

// Permissions returns the user's permissions, in order, without subjects that another one includes.
func (u User) Permissions() Permissions {
	var p Permissions
	for _, a := range u.Acts() {
		if a.Direction == Publish {
			p.Publish = append(p.Publish, a.Subject)
		} else {
			p.Subscribe = append(p.Subscribe, a.Subject)
		}
	}
	p.Publish, p.Subscribe = widest(p.Publish), widest(p.Subscribe)
	p.Respond = u.Role == Workflow || slices.ContainsFunc(rows(), func(r Row) bool { return r.Answers != NoAnswer && r.receives(u) })
	return p
}

// Lists returns the subjects of both directions.
func (p Permissions) Lists() (publish, subscribe []string) { return p.Publish, p.Subscribe }

// May reports whether the permissions include all subjects of a pattern.
func (p Permissions) May(d Direction, pattern string) bool {
	subjects := p.Publish
	if d == Subscribe {
		subjects = p.Subscribe
	}
	return slices.ContainsFunc(subjects, func(s string) bool { return Includes(s, pattern) })
}

// widest returns the patterns without duplicates and without those that another one includes. The order stays.
func widest(patterns []string) (all []string) {
	for i, p := range patterns {
		included := slices.ContainsFunc(patterns, func(other string) bool { return other != p && Includes(other, p) })
		if !included && !slices.Contains(patterns[:i], p) {
			all = append(all, p)
		}
	}
	return all
}

// Includes reports whether each subject that a pattern matches is matched by the wide pattern.
func Includes(wide, pattern string) bool {
	for more, rest := true, true; ; {
		var w, p string
		w, wide, more = strings.Cut(wide, ".")
		p, pattern, rest = strings.Cut(pattern, ".")
		switch {
		case w == ">":
			return true
		case p == ">", w != "*" && w != p, more != rest:
			return false
		case !more:
			return true
		}
	}
}

// Probe is an act on one subject that shows whether the server has the permission.
type Probe struct {
	Direction Direction
	Subject   string
	// Harmless: the act changes nothing and starts nothing. A subscription receives copies only.
	Harmless bool
}

// Probes returns a probe of each permission of the user, in order. A wildcard becomes the token "probe".
func (u User) Probes() []Probe {
	var probes []Probe
	for _, a := range u.Acts() {
		probes = append(probes, Probe{a.Direction, probe(a.Subject), a.Direction == Subscribe || a.Reads})
	}
	return probes
}

// probe returns one subject that a pattern matches.
func probe(pattern string) string {
	tokens := strings.Split(pattern, ".")
	for i, token := range tokens {
		if token == "*" || token == ">" {
			tokens[i] = "probe"
		}
	}
	return strings.Join(tokens, ".")
}

package roles

import (
	"cmp"
	"slices"
	"strings"
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
	var all []Act
	rows := Rows()
	if u.Local || u.Role == Machines {
		rows = append(rows, LocalRows()...)
	}
	for _, row := range rows {
		all = append(all, u.ofRow(row)...)
	}
	all = append(all, u.ofBuckets()...)
	all = append(all, u.ofStreams()...)
	for _, subject := range u.Publish {
		all = append(all, Act{Publish, subject, OneAnswer, false})
	}
	if slices.ContainsFunc(all, func(a Act) bool { return a.Answers != NoAnswer }) {
		all = append(all, Act{Subscribe, u.InboxPrefix() + ".>", NoAnswer, false})
	}
	if slices.ContainsFunc(all, func(a Act) bool { return strings.HasPrefix(a.Subject, "$JS.API.") }) {
		all = append(all, read("$JS.API.INFO"))
	}
	for i := range all {
		all[i].Subject = whole(all[i].Subject)
	}
	slices.SortFunc(all, func(a, b Act) int {
		return cmp.Or(cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Subject, b.Subject), cmp.Compare(b.Answers, a.Answers))
	})
	return slices.CompactFunc(all, func(a, b Act) bool { return a.Direction == b.Direction && a.Subject == b.Subject })
}

func read(subject string) Act { return Act{Publish, subject, OneAnswer, true} }

// ofRow returns the acts of one row: the message, and the answers to it.
func (u User) ofRow(row Row) (acts []Act) {
	if row.Legacy && !u.LegacyDEAs && u.Role != LegacyDEA {
		return nil
	}
	subject := u.expand(row.Subject)
	if slices.Contains(row.Publish, u.Role) {
		acts = append(acts, Act{Publish, subject, row.Answers, false})
	}
	if !slices.Contains(row.Subscribe, u.Role) {
		return acts
	}
	acts = append(acts, Act{Subscribe, subject, NoAnswer, false})
	if row.Answers == NoAnswer {
		return acts
	}
	for _, asker := range row.Publish {
		inbox := "_R_.>" // the server's name for the inbox of a user in another account
		if asker.Account() == AccountWeir {
			inbox = u.expand(inboxes(asker)) + ".>"
		}
		acts = append(acts, Act{Publish, inbox, NoAnswer, false})
	}
	return acts
}

// ofBuckets returns the acts on keys, and those that opening the buckets needs.
func (u User) ofBuckets() (acts []Act) {
	opened := map[string]bool{}
	for _, key := range Keys() {
		bucket := key.Bucket(u.Cluster)
		stream, subject := "KV_"+bucket, "$KV."+bucket+"."+u.expand(key.Name)
		reads, writes := slices.Contains(key.Read, u.Role), slices.Contains(key.Write, u.Role)
		if writes {
			acts = append(acts, Act{Publish, subject, OneAnswer, false})
		}
		if reads {
			acts = append(acts, read("$JS.API.DIRECT.GET."+stream+"."+subject))
		}
		if reads && u.Role.consumes() {
			acts = append(acts, Act{Publish, "$JS.API.CONSUMER.CREATE." + stream + ".*." + subject, OneAnswer, false})
		}
		if (reads || writes) && !opened[bucket] {
			opened[bucket] = true
			acts = append(acts, u.ofOpenBucket(bucket)...)
		}
	}
	return acts
}

// ofOpenBucket returns the acts that do not depend on keys. A request for a message of the leader is none of them: it
// names the key in its body, so it would read all keys of the bucket.
func (u User) ofOpenBucket(bucket string) []Act {
	stream := "KV_" + bucket
	acts := []Act{read("$JS.API.STREAM.INFO." + stream)}
	if slices.Contains(creators(bucket, u.Cluster), u.Role) {
		acts = append(acts, Act{Publish, "$JS.API.STREAM.CREATE." + stream, OneAnswer, false})
	}
	if u.Role.consumes() {
		acts = append(acts, flow(stream)...)
	}
	return acts
}

// flow returns what a consumer of the stream needs after its creation. Without the answers to flow control a watch
// stops after about 2000 messages. The second form is that of later servers.
func flow(stream string) []Act {
	return []Act{
		{Publish, "$JS.API.CONSUMER.DELETE." + stream + ".*", OneAnswer, false},
		{Publish, "$JS.FC." + stream + ".>", NoAnswer, false},
		{Publish, "$JS.FC.*.*." + stream + ".>", NoAnswer, false},
	}
}

// ofStreams returns the acts on the streams of pools and of the cluster.
func (u User) ofStreams() (acts []Act) {
	pools := u.Pools
	if u.Role.hasPool() {
		pools = []string{u.Pool}
	} else if u.Local {
		pools = []string{"*"}
	}
	for _, s := range Streams() {
		if u.Role == Notify && s.Durables != "" {
			acts = append(acts, durables(s.Name(u.Cluster, ""), s.Durables)...)
		}
		if !slices.Contains(s.Read, u.Role) {
			continue
		}
		of := pools
		if s.Whole {
			of = []string{"*"}
		}
		for _, pool := range of {
			acts = append(acts, u.ofStream(s, pool)...)
		}
	}
	if u.Role.readsPools() {
		acts = append(acts, read("$JS.API.STREAM.NAMES"))
	}
	return acts
}

// durables returns the acts on a stream and its durable consumers. The second form of an acknowledgement is that of later
// servers.
func durables(stream, consumers string) []Act {
	acts := []Act{
		read("$JS.API.STREAM.INFO." + stream),
		{Publish, "$JS.API.STREAM.CREATE." + stream, OneAnswer, false},
		read("$JS.API.CONSUMER.INFO." + stream + "." + consumers),
		{Publish, "$JS.API.CONSUMER.CREATE." + stream + "." + consumers, OneAnswer, false},
		{Publish, "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumers, Several, false},
		{Publish, "$JS.ACK." + stream + "." + consumers + ".>", NoAnswer, false},
		{Publish, "$JS.ACK.*.*." + stream + "." + consumers + ".>", NoAnswer, false},
	}
	if consumers == "*" {
		acts = append(acts, read("$JS.API.CONSUMER.NAMES."+stream), Act{Publish, "$JS.API.CONSUMER.DELETE." + stream + ".*", OneAnswer, false})
	}
	return acts
}

// ofStream returns the acts on one stream. A direct get by sequence reads all subjects of the stream, which are the
// pool's own, or findings.
func (u User) ofStream(s Stream, pool string) []Act {
	stream, of := s.Name(u.Cluster, pool), u
	of.Pool = pool
	acts := []Act{read("$JS.API.STREAM.INFO." + stream), {Publish, "$JS.API.DIRECT.GET." + stream, Several, true}}
	for _, subject := range s.Subjects {
		subject = of.expand(subject)
		acts = append(acts, read("$JS.API.DIRECT.GET."+stream+"."+subject))
		if u.Role.consumes() {
			acts = append(acts, Act{Publish, "$JS.API.CONSUMER.CREATE." + stream + ".*." + subject, OneAnswer, false})
		}
	}
	if u.Role.consumes() {
		acts = append(acts, Act{Publish, "$JS.API.STREAM.CREATE." + stream, OneAnswer, false},
			read("$JS.API.CONSUMER.INFO."+stream+".*"), Act{Publish, "$JS.API.CONSUMER.MSG.NEXT." + stream + ".*", Several, false})
		acts = append(acts, flow(stream)...)
	}
	return acts
}

// Permissions are the subjects that a user may publish and subscribe to. All others are forbidden.
type Permissions struct {
	Publish, Subscribe []string
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
	p.Publish, p.Subscribe = Widest(p.Publish), Widest(p.Subscribe)
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

// Widest returns the patterns without duplicates and without those that another one includes. The order stays.
func Widest(patterns []string) (widest []string) {
	for i, p := range patterns {
		included := slices.ContainsFunc(patterns, func(other string) bool { return other != p && Includes(other, p) })
		if !included && !slices.Contains(patterns[:i], p) {
			widest = append(widest, p)
		}
	}
	return widest
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
		tokens := strings.Split(a.Subject, ".")
		for i, token := range tokens {
			if token == "*" || token == ">" {
				tokens[i] = "probe"
			}
		}
		probes = append(probes, Probe{a.Direction, strings.Join(tokens, "."), a.Direction == Subscribe || a.Reads})
	}
	return probes
}

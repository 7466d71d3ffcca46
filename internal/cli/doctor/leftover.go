package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const leftOverCheck = "left-over records"

const (
	// settled is the least time between the write of a left-over record and the answer that lacks its part. A younger record may
	// be of a part that the answer does not have yet.
	settled = 10 * time.Minute
	// asideAge is the least age of a left-over value that was set aside.
	asideAge = 14 * 24 * time.Hour
	// shownRecords is how many names a finding has.
	shownRecords = 3
	// deletions is how many records are deleted at the same time.
	deletions = 32
)

// recordKind is a kind of keys: a prefix, and the name of a part that the record is about.
type recordKind struct {
	bucket, prefix string
	what           string // the records: "drain records"
	gone           string // of those that are left over: "of nodes that are gone"
	by             string // the roles that may delete them
	valid          func(name string) bool
	parts          func(ctx context.Context) parts
}

// leftOvers searches records whose node, group or app is gone. Their owners end them: those that it finds are of an owner that does
// not run or cannot read them, or have no owner that has seen the end.
type leftOvers struct {
	site  *Site
	exam  *busExam
	js    jetstream.JetStream
	now   time.Time
	known map[string]poolParts // by pool
}

// leftOver runs the check of left-over records.
func (s *Site) leftOver(ctx context.Context, x *busExam, report func(Finding), progress func(check string)) {
	if s.Files != nil {
		return // the finding of the files has the cause
	}
	progress(leftOverCheck)
	x = fixer(x)
	x.withBus(ctx, func(ctx context.Context, b *bus.Bus) {
		ctx, cancel := x.bounded(ctx)
		defer cancel()
		for _, f := range newLeftOvers(time.Now(), s, x, b.JetStream()).examine(ctx) {
			f.Check = leftOverCheck
			report(f)
		}
	})
}

// fixer returns the examination with the role that deletes records: admin at the bus of a data folder, whose users may have each
// role.
func fixer(x *busExam) *busExam {
	if !x.Fix || len(x.Config.NATS.Servers) > 0 {
		return x
	}
	own, admin := *x, *x.role.user
	admin.Role, own.Config.User.Role = roles.Admin, roles.Admin
	own.role.user = &admin
	return &own
}

func newLeftOvers(now time.Time, s *Site, x *busExam, js jetstream.JetStream) *leftOvers {
	return &leftOvers{site: s, exam: x, js: js, now: now, known: map[string]poolParts{}}
}

// kinds returns the kinds of records, in the order of their findings.
func (l *leftOvers) kinds() []recordKind {
	cluster, pool := l.exam.Cluster, l.exam.Pool
	own := names.PoolBucket(cluster, pool)
	nodes := func(ctx context.Context) parts { return l.pool(ctx, pool).nodes }
	groups := func(ctx context.Context) parts { return l.pool(ctx, pool).groups }
	aside := func(bucket string) recordKind {
		old := func(context.Context) parts { return parts{at: l.now.Add(settled - asideAge)} } // only its age counts
		return recordKind{bucket, "aside.", "values that were set aside", "more than 14 days ago", "admin", names.ValidKey, old}
	}
	return []recordKind{
		{own, "drain.", "drain records", "of nodes that are gone", "admin", names.ValidKey, nodes},
		{own, "order.remove.", "orders to remove nodes", "that are gone", "operator or admin", names.ValidKey, nodes},
		{own, "order.stale.", "marks of groups", "that are gone", "operator or admin", names.ValidKey, groups},
		{own, "trial.", "trials of apps", "that are gone", "admin", names.Valid, l.apps},
		aside(own), aside(names.PlacerBucket(cluster, pool)), aside(names.HarmonizerBucket(cluster)),
		{names.AuthBucket(cluster), "identity.", "keys of machines", "that are gone", "admin", names.ValidKey, l.machines},
	}
}

// examine returns a finding for each kind with left-over records, and one for each reason why records cannot be judged.
func (l *leftOvers) examine(ctx context.Context) (all []Finding) {
	waits, causes, closed := map[string][]string{}, []string(nil), []string(nil)
	for _, k := range l.kinds() {
		if l.readable(kvbucket.Stream(k.bucket)) != nil {
			closed = append(closed, k.bucket)
			continue
		}
		found, err := l.read(ctx, k)
		switch {
		case errors.Is(err, kvbucket.ErrMissing): // the finding of the stream has it
		case err != nil:
			all = append(all, Finding{Result: Unknown, Detail: fmt.Sprintf("%s: %v", k.what, err), Fix: streamRemedy(err)})
		case found.unknown != "":
			if waits[found.unknown] == nil {
				causes = append(causes, found.unknown)
			}
			waits[found.unknown] = append(waits[found.unknown], fmt.Sprintf("%d %s", found.count, k.what))
		case len(found.left) > 0:
			all = append(all, l.judged(ctx, k, found.left))
		}
	}
	for _, why := range causes {
		all = append(all, Finding{Result: Unknown, Detail: strings.Join(waits[why], ", ") + " are not judged: " + why,
			Fix: `correct what "weir status" and the finding of bootstrap name, and run doctor again`})
	}
	if closed != nil {
		all = append(all, Finding{Result: Unknown, Detail: fmt.Sprintf("%v may not read %s", l.exam.role, strings.Join(slices.Compact(closed), ", ")),
			Fix: "run doctor with credentials of role viewer, operator or admin"})
	}
	if all = append(all, l.pools(ctx)...); all == nil {
		return []Finding{{Result: OK, Detail: "no record is about a node, a group or an app that is gone"}}
	}
	return all
}

// foundRecords are the records of a kind.
type foundRecords struct {
	count   int
	unknown string          // why none is judged
	left    []integrity.Key // left over, the oldest first
}

// read reads the records of a kind. It leaves out keys that no process writes, and values that it cannot read: "weir state check"
// lists them.
func (l *leftOvers) read(ctx context.Context, k recordKind) (f foundRecords, err error) {
	c, err := integrity.Read(ctx, l.js, k.bucket, k.prefix+">")
	if err != nil {
		return f, err
	}
	records := slices.DeleteFunc(c.Keys, func(r integrity.Key) bool {
		return r.Deleted || r.Damaged || r.Forged || !k.valid(strings.TrimPrefix(r.Name, k.prefix))
	})
	if f.count = len(records); f.count == 0 {
		return f, nil
	}
	p := k.parts(ctx)
	f.unknown = p.unknown
	f.left = slices.DeleteFunc(records, func(r integrity.Key) bool { return !p.lack(strings.TrimPrefix(r.Name, k.prefix), r.At) })
	return f, nil
}

// judged returns the finding of left-over records, after their deletion if that is permitted.
func (l *leftOvers) judged(ctx context.Context, k recordKind, left []integrity.Key) Finding {
	if !l.exam.Fix {
		return Finding{Result: Warned, Detail: k.text(left), Fix: fmt.Sprintf(`"weir doctor --fix" as role %s deletes them`, k.by)}
	}
	if !l.exam.role.may("$KV." + k.bucket + "." + left[0].Name) {
		return Finding{Result: Failed, Detail: fmt.Sprintf("%s, and %v may not delete them", k.text(left), l.exam.role),
			Fix: fmt.Sprintf(`run "weir doctor --fix" with credentials of role %s (nats.nkey_file)`, k.by)}
	}
	deleted, changed, err := l.delete(ctx, k.bucket, left)
	switch {
	case err != nil:
		return Finding{Result: Failed, Detail: fmt.Sprintf("deleted %d of %s: %v", len(deleted), k.text(left), err), Fix: `run "weir doctor --fix" again`}
	case len(deleted) == 0:
		return Finding{Result: Warned, Detail: k.text(left) + ": each has changed meanwhile", Fix: "run doctor again"}
	case changed > 0:
		return Finding{Result: Fixed, Detail: fmt.Sprintf("deleted %s; %d changed meanwhile and stay", k.text(deleted), changed)}
	}
	return Finding{Result: Fixed, Detail: "deleted " + k.text(deleted)}
}

// text returns how many records there are, and the names of the first ones.
func (k recordKind) text(records []integrity.Key) string {
	var shown []string
	for _, r := range records[:min(len(records), shownRecords)] {
		shown = append(shown, strings.TrimPrefix(r.Name, k.prefix))
	}
	more := ""
	if n := len(records) - len(shown); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%d %s %s: %s%s (keys %s* of bucket %s, the oldest of %s)", len(records), k.what, k.gone, strings.Join(shown, ", "), more,
		k.prefix, k.bucket, explain.Time(records[0].At))
}

// delete deletes records that have not changed since they were read.
func (l *leftOvers) delete(ctx context.Context, bucket string, records []integrity.Key) (deleted []integrity.Key, changed int, err error) {
	kv, errs := kvbucket.New(l.js, bucket), make([]error, len(records))
	slots := make(chan struct{}, deletions)
	var wg sync.WaitGroup
	for i, r := range records {
		slots <- struct{}{}
		wg.Go(func() {
			if errs[i] = context.Cause(ctx); errs[i] == nil {
				_, errs[i] = kv.Erase(ctx, r.Name, r.Revision)
			}
			<-slots
		})
	}
	wg.Wait()
	for i, one := range errs {
		switch {
		case one == nil:
			deleted = append(deleted, records[i])
		case errors.Is(one, jetstream.ErrKeyRevisionMismatch):
			changed++
		case err == nil:
			err = one
		}
	}
	return deleted, changed, err
}

package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

// Bus is how a pool reaches its bus, and what the bus must have.
type Bus struct {
	Config  bus.Config
	Cluster string
	Pool    string
	Node    string        // of this machine, if it may be one of the pool; empty: it is not
	Bounds  streams.Pool  // of missing streams of the pool
	Files   []string      // pools of the cluster that have a file on this host
	NewFile string        // path of the file that the pool would have
	Timeout time.Duration // of each check
	// Fix creates missing streams and buckets and raises the number of replicas. Without it, the checks change nothing.
	Fix bool

	visitLimit func(server string) time.Duration // of the visit of a server; nil: Timeout
}

// busExam is one examination of a bus.
type busExam struct {
	Bus
	report   func(Finding)
	progress func(check string)
	visits   []visit
	role     roleFound
	replicas int  // wanted, of each stream
	unknown  bool // neither the files nor the bus have the pool, and the finding is reported
}

// examine runs the checks of the bus, in order. It returns the examination with the role that it has found.
func (b Bus) examine(ctx context.Context, report func(Finding), progress func(string)) *busExam {
	x := &busExam{Bus: b, report: report, progress: progress}
	if len(b.Config.NATS.Servers) == 0 {
		x.folder(ctx)
		return x
	}
	x.servers(ctx)
	x.expiries(time.Now())
	if !x.connects() {
		return x // each server has its finding
	}
	x.permissions(ctx)
	x.borders(ctx)
	x.withBus(ctx, x.streams)
	x.clocks(ctx)
	return x
}

// connects reports whether a server accepts this client.
func (x *busExam) connects() bool {
	return x != nil && (slices.ContainsFunc(x.visits, visit.usable) || x.role.user != nil)
}

// found reports a finding of a check.
func (x *busExam) found(check string, r Result, fix, format string, args ...any) {
	x.report(Finding{Check: check, Result: r, Detail: fmt.Sprintf(format, args...), Fix: fix})
}

// bounded returns a context with the deadline of one check.
func (x *busExam) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, x.Timeout)
}

// folder checks the server of a data folder. Each command is an operator there.
func (x *busExam) folder(ctx context.Context) {
	const check = "nats"
	x.progress(check)
	bound, cancel := x.bounded(ctx)
	defer cancel()
	b, err := bus.Find(bound, x.Config)
	if err != nil {
		x.found(check, Failed, `start it, or name another bus with --data, --nats or nats.servers of weir.yaml`, "%v", err)
		return
	}
	defer b.Close()
	x.found(check, OK, "", "the server of data folder %s accepts this user as operator", x.Config.Data)
	x.role.user, x.replicas = &roles.User{Role: roles.Operator, Cluster: x.Cluster, Pool: x.Pool, Pools: []string{x.Pool}}, b.Replicas()
	x.streams(ctx, b)
}

// withBus runs one part with a connection to any server, as the role that was found.
func (x *busExam) withBus(ctx context.Context, part func(context.Context, *bus.Bus)) {
	c := x.Config
	c.InboxPrefix = x.role.inbox()
	bound, cancel := x.bounded(ctx)
	defer cancel()
	b, err := bus.Find(bound, c)
	if err != nil {
		x.found("nats", Failed, remedyOf(err), "%s", causeOf(err))
		return
	}
	defer b.Close()
	part(ctx, b)
}

// visit is what one server of the list has reported.
type visit struct {
	server   string // its URL
	shown    string // without secrets
	greeting bus.Greeting
	err      error    // why no client can use it; nil if a client can
	conn     *bus.Bus // nil with err
}

func (v visit) usable() bool { return v.err == nil }

// at returns the configuration of a connection to this server alone.
func (v visit) at(c bus.Config) bus.Config {
	c.NATS, c.ListedOnly = c.NATS.At([]string{v.server}), true
	return c
}

const (
	leastPayload = 1 << 20 // bytes; the default of NATS
	payloadFix   = `set max_payload of the servers to 8MB ("weir nats init" does)`
)

const maxDays = 14 // a certificate or a user with fewer days left is reported

// servers visits all servers at the same time, and reports each one.
func (x *busExam) servers(ctx context.Context) {
	const check = "nats server"
	x.progress(check)
	list := x.Config.NATS.Servers
	x.visits = make([]visit, len(list))
	var wg sync.WaitGroup
	for i, server := range list {
		wg.Go(func() { x.visits[i] = x.visit(ctx, server) })
	}
	wg.Wait()
	defer func() {
		for _, v := range x.visits {
			if v.conn != nil {
				v.conn.Close()
			}
		}
	}()
	for _, v := range x.visits {
		f := x.ofServer(v, time.Now())
		f.Check = check
		x.report(f)
	}
	x.placement()
}

func (x *busExam) visit(ctx context.Context, server string) visit {
	v := visit{server: server, shown: bus.NATS{Servers: []string{server}}.Show()}
	limit := x.Timeout
	if x.visitLimit != nil {
		limit = x.visitLimit(server)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var refused error
	v.greeting, refused = bus.Greet(ctx, server)
	v.conn, v.err = bus.Find(ctx, v.at(x.Config))
	if v.err != nil && refused != nil && timedOut(refused) {
		v.err = &bus.ConnectError{Servers: v.shown, Err: refused, Remedy: "the server does not answer: check its process, its log and the network"}
	}
	return v
}

// timedOut reports whether a deadline ended a connection.
func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// ofServer returns the finding of one server: its first mistake, and otherwise what it is.
func (x *busExam) ofServer(v visit, now time.Time) Finding {
	g := v.greeting
	fail := func(fix, format string, args ...any) Finding {
		return Finding{Result: Failed, Detail: v.shown + ": " + fmt.Sprintf(format, args...), Fix: fix}
	}
	if v.err != nil {
		return failure(v.err, v.shown+": "+causeOf(v.err), remedyOf(v.err))
	}
	about := []string{g.Server, "NATS " + g.Version}
	certificate := ""
	days := 0.0
	if len(g.Certificates) > 0 {
		own := g.Certificates[0]
		days = own.NotAfter.Sub(now).Hours() / 24
		var names []string
		names = append(names, own.DNSNames...)
		for _, ip := range own.IPAddresses {
			names = append(names, ip.String())
		}
		slices.Sort(names)
		certificate = fmt.Sprintf("certificate for %s ends in %.0f days", list(slices.Compact(names)), days)
		about = append(about, certificate)
	}
	first := x.visits[slices.IndexFunc(x.visits, visit.usable)]
	switch {
	case !g.JetStream:
		return fail(`enable JetStream in its configuration ("jetstream {}")`, "has no JetStream")
	case g.Cluster == "" && len(x.visits) > 1:
		return fail(`configure a cluster ("weir nats init" does), or name one server in nats.servers of weir.yaml`, "is not in a cluster")
	case g.Cluster != first.greeting.Cluster:
		return fail("name servers of one cluster in nats.servers of weir.yaml", "is in cluster %s, and %s is in cluster %s", g.Cluster, first.shown, first.greeting.Cluster)
	case g.MaxPayload > 0 && g.MaxPayload < message.MaxNodeMessage:
		return fail(payloadFix, "accepts messages of %d bytes (max_payload), and those of a node have up to %d: a node with many instances cannot report all", g.MaxPayload, message.MaxNodeMessage)
	case g.MaxPayload > 0 && g.MaxPayload < leastPayload:
		return Finding{Result: Warned, Detail: fmt.Sprintf("%s: accepts messages of %d bytes (max_payload): records of ticks and pages of applications are longer", v.shown, g.MaxPayload), Fix: payloadFix}
	case certificate != "" && days < maxDays:
		return Finding{Result: Warned, Detail: v.shown + ": " + certificate, Fix: `renew the certificate and reload the server ("nats-server --signal reload")`}
	}
	if g.Cluster != "" {
		about = append(about, fmt.Sprintf("cluster %s with %d known servers", g.Cluster, len(g.Peers)))
	}
	return Finding{Result: OK, Detail: v.shown + ": " + strings.Join(append(about, "JetStream"), ", ")}
}

// placement compares the wanted number of replicas with the servers.
func (x *busExam) placement() {
	known := 0
	for _, v := range x.visits {
		if v.usable() {
			x.replicas = v.conn.Replicas()
			known = max(known, len(v.greeting.Peers), 1)
		}
	}
	if known > 0 && x.replicas > known {
		x.found("replicas", Failed, "start the other servers, or lower nats.replicas of weir.yaml",
			"streams need %d replicas, and the number of known servers is %d", x.replicas, known)
	}
}

// expiries checks the ends of this client's files.
func (x *busExam) expiries(now time.Time) {
	const check = "nats files"
	x.progress(check)
	all, err := x.Config.NATS.Expiries()
	if err != nil {
		f := failure(err, err.Error(), "correct the file")
		x.found(check, f.Result, f.Fix, "%s", f.Detail)
		return
	}
	for _, e := range all {
		days := e.End.Sub(now).Hours() / 24
		text := fmt.Sprintf("nats.%s %s ends in %.0f days", e.Key, e.Path, days)
		switch {
		case days < 0:
			x.found(check, Failed, "renew it; no restart is needed", "nats.%s %s expired at %s", e.Key, e.Path, explain.When(now, e.End))
		case days < maxDays:
			x.found(check, Warned, "renew it; no restart is needed", "%s", text)
		default:
			x.found(check, OK, "", "%s", text)
		}
	}
	if len(all) == 0 {
		x.found(check, OK, "", "no file of this client has an end")
	}
}

// causeOf returns a connection error without its remedy and its places.
func causeOf(err error) string {
	if e, ok := errors.AsType[*bus.ConnectError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// remedyOf returns what to do about a connection error.
func remedyOf(err error) string {
	e, ok := errors.AsType[*bus.ConnectError](err)
	switch {
	case ok && e.Remedy != "":
		return e.Remedy
	case ok:
		return "correct the file"
	}
	return "check the server, its log and the network"
}

// list returns at most five names.
func list(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// roleFound is what this connection may do.
type roleFound struct {
	user      *roles.User // nil: no role fits
	unlimited bool        // no permissions are set
}

// may reports whether the role permits an act of JetStream or on a key.
func (r roleFound) may(subject string) bool {
	return r.unlimited || r.user != nil && r.user.Permissions().May(roles.Publish, subject)
}

// inbox returns the prefix of the subjects for responses; empty: the default of the client library.
func (r roleFound) inbox() string {
	if r.user == nil {
		return ""
	}
	return r.user.InboxPrefix()
}

func (r roleFound) String() string {
	if r.user == nil {
		return "this user"
	}
	return "role " + string(r.user.Role)
}

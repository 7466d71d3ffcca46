// Package doctor checks the requirements of a pool, in order, and reports a remedy for each failure. [Examine] runs the
// checks. It changes nothing without [Bus.Fix]. The caller supplies how to reach the bus and the facts about the running
// pool.
//
// Each check has a deadline of its own. The servers of the bus are checked at the same time, so a server that hangs
// delays only its own finding.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/cli/installation"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/bootstrapd"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/ui/view"
)

// Result is the result of a check.
type Result string

// Results. The zero value is not a Result.
const (
	OK      Result = "ok"
	Failed  Result = "failed"
	Warned  Result = "warning" // works now, and needs an operator soon
	Fixed   Result = "fixed"   // failed, and Bus.Fix has repaired it
	Unknown Result = "unknown" // the check has no data
	Note    Result = "note"    // nothing is to be done: an ordinary user cannot have it
)

// Finding is the finding of a check.
type Finding struct {
	Check  string `json:"check"`
	Result Result `json:"result"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do; empty if the result is OK
}

// Site has the facts about a pool.
type Site struct {
	Program string // path of weir; empty: the installed package is not checked
	Configs string // folder of the files
	Service config.Service
	Pool    config.Pool
	Keys    signalbucket.Keys // of the bucket of "weir up"; zero: those of the service file
	Files   error             // why the files are not valid; nil if they are
	// Absent: the folder has no file of a pool of the cluster, so Pool is empty. Only the host of bootstrap needs one.
	Absent bool
	// Lacks: it has files of other pools, and none of this one.
	Lacks bool
	// Plain: the folder has no file at all, and no bus is given.
	Plain   bool
	Timeout time.Duration // of each check; 0: 10 s
	// Ordinary: "weir up" of a user that is not root. It cannot give signals users of their own, or limits.
	Ordinary bool
	Bus      *Bus // nil: the bus is not checked
	// Status is bootstrap's response; nil without one, then Silent is the error. With Bus, Examine requests it.
	Status *api.BootstrapStatus
	Silent error
	// Late is since when the pool has no tick, or its autoscaler hangs; empty: neither is known. With Bus, Examine reads it.
	Late string
}

// PoolCheck is the check whose failure means that the cluster has no such pool.
const PoolCheck = "pool"

// Examine runs all checks in order, and calls report with each finding as soon as it is known. Before a check it calls
// progress with its name; progress may be nil.
func Examine(ctx context.Context, s Site, report func(Finding), progress func(check string)) {
	if progress == nil {
		progress = func(string) {}
	}
	run := func(name string, check func(Site) []Finding) {
		progress(name)
		for _, f := range check(s) {
			f.Check = name
			report(f)
		}
	}
	if s.Program != "" {
		run("package", installed)
	}
	run("configuration", configuration)
	var x *busExam
	if s.Bus != nil {
		if x = s.Bus.examine(ctx, report, progress); x.unknown {
			return // the other checks are of a pool
		}
	}
	bounded := func(name string, check func(context.Context) []Finding) {
		run(name, func(Site) []Finding { return check(ctx) })
	}
	bounded("bucket", s.bucket)
	bounded("keys", s.keys)
	if s.Files == nil && len(s.Service.Sources) > 0 {
		bounded("metrics sources", func(ctx context.Context) []Finding { return sourceWindows(ctx, s) })
	}
	if r := s.Service.Telemetry.RemoteWrite; s.Files == nil && r != nil {
		bounded("remote write", func(ctx context.Context) []Finding { return remoteWrite(ctx, r) })
	}
	switch {
	case x.connects():
		s.overBus(ctx, x, report, progress)
		s.leftOver(ctx, x, report, progress)
	case x != nil && s.Silent == nil:
		s.Silent = errNoServer
	}
	run("bootstrap", running)
	run("ticks", ticking)
	run("signal users", signalUsers)
	run("signal limits", signalLimits)
	run("secret files", secretFiles)
}

// errNoServer: bootstrap receives no request, because no server of the bus accepts this client.
var errNoServer = errors.New("no server of the bus can be used")

// overBus runs the checks that send requests over the bus, and requests bootstrap's status. They run at the same time, so
// a bus that does not answer delays them by the deadline of one. Without valid files it requests the status only.
func (s *Site) overBus(ctx context.Context, x *busExam, report func(Finding), progress func(check string)) {
	type part struct {
		name  string
		check func(context.Context, *bus.Bus) []Finding
		found []Finding
	}
	var parts []part
	if !s.unread() {
		parts = []part{{"metrics store", s.metrics, nil}, {"provider", s.rights, nil}, {"agents", s.agents, nil}, {"scheduler", s.scheduler, nil}}
	}
	progress("metrics store, provider, agents, scheduler and bootstrap")
	s.Silent = errNoServer
	x.withBus(ctx, func(ctx context.Context, b *bus.Bus) {
		ctx, cancel := x.bounded(ctx)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			status, err := view.Bootstrap(ctx, b, x.Cluster, x.Pool)
			if s.Silent = err; err == nil {
				s.Status = &status
				s.Late = lateOf(ctx, b, x, status)
			}
		})
		for i := range parts {
			wg.Go(func() { parts[i].found = parts[i].check(ctx, b) })
		}
		wg.Wait()
	})
	for _, part := range parts {
		for _, f := range part.found {
			f.Check = part.name
			report(f)
		}
	}
}

// Healthy reports whether no check failed.
func Healthy(all []Finding) bool {
	return !slices.ContainsFunc(all, func(f Finding) bool { return f.Result == Failed })
}

// installed reports a package that was unpacked in part, or whose users and folders are missing.
func installed(s Site) (all []Finding) {
	report, err := installation.Check(s.Program)
	if errors.Is(err, installation.ErrNone) {
		return nil
	}
	const fix = `install the package again: "apt-get install --reinstall weir" or "dnf reinstall weir"`
	if err != nil {
		return []Finding{{Result: Failed, Detail: err.Error(), Fix: fix}}
	}
	for _, problem := range report.Problems {
		all = append(all, Finding{Result: Failed, Detail: problem + ": the package is installed in part", Fix: fix})
	}
	if all == nil {
		return []Finding{{Result: OK, Detail: fmt.Sprintf("%d files are those of the package, and its users and folders exist", report.Files)}}
	}
	return all
}

func configuration(s Site) []Finding {
	if s.Files != nil && s.Lacks {
		return []Finding{{Result: Failed, Detail: s.Files.Error(), Fix: "name a pool that it has, or run the command on the host of the pool's bootstrap, which has its file"}}
	}
	if s.Files != nil {
		return []Finding{failure(s.Files, s.Files.Error(), `correct the files; "weir config validate" checks them`)}
	}
	switch {
	case s.Plain:
		return []Finding{{Result: Failed, Detail: "no pool is configured on this host: " + s.Configs + " has no weir.yaml and no file of a pool",
			Fix: `start a trial with "weir up", write the files, or name the bus of a pool with --nats or "weir context"`}}
	case s.Absent:
		return []Finding{{Result: Note, Detail: s.Configs + " has no file of a pool of the cluster, which only the host of bootstrap needs: its checks are left out",
			Fix: "to check these too, run the command on that host"}}
	}
	return []Finding{{Result: OK, Detail: "the files of " + s.Configs + " are valid"}}
}

// failure returns the finding of an error. A file that this user may not read can be good: the check has no data.
func failure(err error, detail, fix string) Finding {
	if errors.Is(err, fs.ErrPermission) {
		return Finding{Result: Unknown, Detail: detail, Fix: "run the command as the user of the process that reads the file, or as root"}
	}
	return Finding{Result: Failed, Detail: detail, Fix: fix}
}

// unread reports whether the checks of what the files name are left out. The finding of the files has the cause.
func (s Site) unread() bool { return s.Files != nil || s.Absent }

// refused reports whether the credentials may not request bootstrap's status.
func (s Site) refused() bool {
	return s.Status == nil && errors.Is(s.Silent, nats.ErrPermissionViolation)
}

func running(s Site) []Finding {
	switch {
	case s.refused():
		return notPermitted(s.Silent)
	case s.Status == nil && errors.Is(s.Silent, errNoServer):
		return []Finding{{Result: Unknown, Detail: s.Silent.Error(), Fix: "correct the findings of the bus"}}
	case s.Status == nil && s.Files != nil && s.Bus == nil:
		return []Finding{{Result: Unknown, Detail: "the files name the bus", Fix: "correct the finding of the files"}}
	case s.Status == nil:
		return []Finding{{Result: Failed, Detail: s.Silent.Error(), Fix: `start "weir bootstrap", or give its data folder or bus with --data or --nats`}}
	case s.Status.Refused != "":
		return []Finding{{Result: Failed, Detail: "bootstrap rejected the files: " + s.Status.Refused, Fix: "correct the files; bootstrap reloads them after a change"}}
	}
	return []Finding{{Result: OK, Detail: fmt.Sprintf("process %d", s.Status.PID)}}
}

// lateOf returns Site.Late by the last tick of the pool. Without the right to read it, or without a tick, it is empty.
func lateOf(ctx context.Context, b *bus.Bus, x *busExam, status api.BootstrapStatus) string {
	if !x.role.may("$JS.API.STREAM.INFO." + names.LedgerStream(x.Cluster, x.Pool)) {
		return ""
	}
	r, err := view.Last(ctx, b, x.Cluster, x.Pool)
	if err != nil {
		return ""
	}
	return view.Silence(time.Now(), r, &status.Autoscaler)
}

// ticking reports a pool that nothing controls.
func ticking(s Site) []Finding {
	if s.Late == "" {
		return nil
	}
	return []Finding{{Result: Failed, Detail: s.Late, Fix: "see the log of the autoscaler, and end it if it hangs: bootstrap starts it again"}}
}

// signalUsers reports signals that can read bootstrap's files.
func signalUsers(s Site) []Finding {
	if s.refused() {
		return notPermitted(s.Silent)
	}
	if s.Status == nil && s.Absent {
		return nil // bootstrap does not run on this host
	}
	if s.Status == nil {
		if why := bootstrapd.NoUsers(s.Service.Users()); why != "" {
			return []Finding{{Result: Unknown, Detail: "bootstrap does not answer. Started as this user, it would run signals as its own user",
				Fix: why}}
		}
		return []Finding{{Result: Unknown, Detail: "bootstrap does not answer. Started as this user, it would run each signal as a separate user", Fix: "start bootstrap"}}
	}
	var all []Finding
	same := Shared(s.Status.Signals)
	for _, why := range slices.Sorted(maps.Keys(same)) {
		all = append(all, Finding{Result: s.unlessOrdinary(Failed),
			Detail: fmt.Sprintf("signals of %s run as the user of bootstrap, and can read its keys and files", strings.Join(same[why], ", ")), Fix: why})
	}
	if all == nil {
		return []Finding{{Result: OK, Detail: "each signal runs as a separate user"}}
	}
	return all
}

// unlessOrdinary returns the result of a check that an ordinary user cannot pass.
func (s Site) unlessOrdinary(r Result) Result {
	if s.Ordinary {
		return Note
	}
	return r
}

// Shared returns the apps whose signals run as the user of bootstrap, by the reason with its remedy.
func Shared(signals []api.Process) map[string][]string {
	same := map[string][]string{}
	each(signals, func(p api.Process) {
		if p.SameUser != "" && p.PID != 0 && !slices.Contains(same[p.SameUser], p.App) {
			same[p.SameUser] = append(same[p.SameUser], p.App)
		}
	})
	return same
}

// each visits the signals and their candidates.
func each(signals []api.Process, visit func(api.Process)) {
	for _, p := range signals {
		visit(p)
		if p.Candidate != nil {
			visit(*p.Candidate)
		}
	}
}

func signalLimits(s Site) []Finding {
	if s.refused() {
		return notPermitted(s.Silent)
	}
	switch {
	case s.Status == nil && s.Absent:
		return nil
	case s.Status == nil:
		return []Finding{{Result: Unknown, Detail: "bootstrap does not answer", Fix: "start bootstrap"}}
	}
	unenforced := map[string][]string{}
	each(s.Status.Signals, func(p api.Process) {
		if p.Unenforced != "" && p.PID != 0 && !slices.Contains(unenforced[p.Unenforced], p.App) {
			unenforced[p.Unenforced] = append(unenforced[p.Unenforced], p.App)
		}
	})
	var all []Finding
	for _, why := range slices.Sorted(maps.Keys(unenforced)) {
		all = append(all, Finding{Result: s.unlessOrdinary(Failed),
			Detail: fmt.Sprintf("limits of the signals of %s are not enforced: %s", strings.Join(unenforced[why], ", "), why),
			Fix:    "give bootstrap a cgroup v2 with the controllers cpu, memory and pids: in its unit file, Delegate=yes and DelegateSubgroup=bootstrap"})
	}
	if all == nil {
		return []Finding{{Result: OK, Detail: "the limits of all signals are enforced"}}
	}
	return all
}

// secretFiles reports files with keys that every user of the host, and so every signal, can read.
func secretFiles(s Site) []Finding {
	files := append(awssdk.SharedFiles(), s.Service.AWS.AccessKeyFile, os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"))
	if s.Service.NATS.Secret() {
		files = append(files, filepath.Join(s.Configs, "weir.yaml")) // it has the password of the bus
	}
	var all []Finding
	exist := 0
	for _, file := range files {
		if file == "" {
			continue
		}
		const readByAll fs.FileMode = 0o004
		info, err := os.Stat(file)
		if !errors.Is(err, fs.ErrNotExist) {
			exist++
		}
		if err == nil && info.Mode()&readByAll != 0 && supervise.ReachableByOthers(filepath.Dir(file)) == nil {
			all = append(all, Finding{Result: Failed,
				Detail: fmt.Sprintf("%s has mode %04o: all users can read its keys, signals too", file, info.Mode().Perm()),
				Fix:    "chmod o-r " + file})
		}
	}
	switch {
	case exist == 0 && s.Files == nil:
		return []Finding{{Result: OK, Detail: "no file with keys is named on this host"}}
	case all == nil && s.Files == nil:
		return []Finding{{Result: OK, Detail: "other users cannot read the files with keys"}}
	case all == nil:
		return []Finding{{Result: Unknown, Detail: "the files name the files with keys", Fix: "correct the finding of the files"}}
	}
	return all
}

// Package doctor checks the requirements of a pool, in order, and returns a remedy for each failure. [Examine] runs
// the checks: it reads files and changes nothing. The caller supplies the facts about the running pool.
package doctor

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/internal/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/bootstrapd"
)

// Result is the result of a check.
type Result string

// Results. The zero value is not a Result.
const (
	OK      Result = "ok"
	Failed  Result = "failed"
	Unknown Result = "unknown" // the check has no data
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
	Configs string // folder of the files
	Service config.Service
	Files   error // why the files are not valid; nil if they are
	// Status is bootstrap's response; nil without one, then Silent is the error.
	Status *bootstrapd.Status
	Silent error
}

// Examine runs all checks, in order.
func Examine(s Site) []Finding {
	var all []Finding
	for _, check := range []struct {
		name string
		make func(Site) []Finding
	}{
		{"configuration", configuration},
		{"bootstrap", running},
		{"signal users", signalUsers},
		{"signal limits", signalLimits},
		{"secret files", secretFiles},
	} {
		for _, f := range check.make(s) {
			f.Check = check.name
			all = append(all, f)
		}
	}
	return all
}

// Healthy reports whether no check failed.
func Healthy(all []Finding) bool {
	return !slices.ContainsFunc(all, func(f Finding) bool { return f.Result == Failed })
}

func configuration(s Site) []Finding {
	if s.Files != nil {
		return []Finding{{Result: Failed, Detail: s.Files.Error(), Fix: `correct the files; "weir config validate" checks them`}}
	}
	return []Finding{{Result: OK, Detail: "the files of " + s.Configs + " are valid"}}
}

func running(s Site) []Finding {
	switch {
	case s.Status == nil:
		return []Finding{{Result: Failed, Detail: s.Silent.Error(), Fix: `start "weir bootstrap", or give its data folder or bus with --data or --nats`}}
	case s.Status.Refused != "":
		return []Finding{{Result: Failed, Detail: "bootstrap rejected the files: " + s.Status.Refused, Fix: "correct the files; bootstrap reloads them after a change"}}
	}
	return []Finding{{Result: OK, Detail: fmt.Sprintf("process %d", s.Status.PID)}}
}

// signalUsers reports signals that can read bootstrap's files.
func signalUsers(s Site) []Finding {
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
		all = append(all, Finding{Result: Failed,
			Detail: fmt.Sprintf("signals of %s run as the user of bootstrap, and can read its keys and files", strings.Join(same[why], ", ")), Fix: why})
	}
	if all == nil {
		return []Finding{{Result: OK, Detail: "each signal runs as a separate user"}}
	}
	return all
}

// Shared returns the apps whose signals run as the user of bootstrap, by the reason with its remedy.
func Shared(signals []bootstrap.Process) map[string][]string {
	same := map[string][]string{}
	each(signals, func(p bootstrap.Process) {
		if p.SameUser != "" && p.PID != 0 && !slices.Contains(same[p.SameUser], p.App) {
			same[p.SameUser] = append(same[p.SameUser], p.App)
		}
	})
	return same
}

// each visits the signals and their candidates.
func each(signals []bootstrap.Process, visit func(bootstrap.Process)) {
	for _, p := range signals {
		visit(p)
		if p.Candidate != nil {
			visit(*p.Candidate)
		}
	}
}

func signalLimits(s Site) []Finding {
	if s.Status == nil {
		return []Finding{{Result: Unknown, Detail: "bootstrap does not answer", Fix: "start bootstrap"}}
	}
	unenforced := map[string][]string{}
	each(s.Status.Signals, func(p bootstrap.Process) {
		if p.Unenforced != "" && p.PID != 0 && !slices.Contains(unenforced[p.Unenforced], p.App) {
			unenforced[p.Unenforced] = append(unenforced[p.Unenforced], p.App)
		}
	})
	var all []Finding
	for _, why := range slices.Sorted(maps.Keys(unenforced)) {
		all = append(all, Finding{Result: Failed,
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
	for _, file := range files {
		if file == "" {
			continue
		}
		const readByAll fs.FileMode = 0o004
		info, err := os.Stat(file)
		if err == nil && info.Mode()&readByAll != 0 && bootstrap.ReachableByOthers(filepath.Dir(file)) == nil {
			all = append(all, Finding{Result: Failed,
				Detail: fmt.Sprintf("%s has mode %04o: all users can read its keys, signals too", file, info.Mode().Perm()),
				Fix:    "chmod o-r " + file})
		}
	}
	if all == nil {
		return []Finding{{Result: OK, Detail: "other users cannot read the files with keys"}}
	}
	return all
}

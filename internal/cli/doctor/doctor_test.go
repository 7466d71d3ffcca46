package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// found returns the findings of one check.
func found(all []Finding, check string) (of []Finding) {
	for _, f := range all {
		if f.Check == check {
			of = append(of, f)
		}
	}
	return of
}

// examine returns all findings.
func examine(t *testing.T, s Site) (all []Finding) {
	t.Helper()
	Examine(t.Context(), s, func(f Finding) { all = append(all, f) }, nil)
	return all
}

func statusOf(signals ...api.Process) *api.BootstrapStatus {
	return &api.BootstrapStatus{PoolProcesses: api.PoolProcesses{PID: 7, Signals: signals}}
}

func TestExamine(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // without AWS files
	own := api.Process{App: "web", PID: 8, User: 60710}
	same := api.Process{App: "api", PID: 9, SameUser: "run bootstrap as root"}
	beside := api.Process{App: "job", PID: 10, User: 60711, Candidate: &same}
	unenforced := api.Process{App: "web", PID: 8, User: 60710, Unenforced: "CPUs: no cgroup v2"}
	ended := api.Process{App: "api", SameUser: "run bootstrap as root", Unenforced: "CPUs: no cgroup v2"}
	silent := errors.New("no bootstrap runs here")
	unreadable := &fs.PathError{Op: "open", Path: "weir.yaml", Err: fs.ErrPermission}
	for _, c := range []struct {
		name, check string
		site        Site
		want        Result
		detail, fix string // parts of the texts
	}{
		{"good files", "configuration", Site{Configs: "/etc/weir", Silent: silent}, OK, "/etc/weir", ""},
		{"bad files", "configuration", Site{Files: errors.New("line 3"), Silent: silent}, Failed, "line 3", "weir config validate"},
		{"unreadable files", "configuration", Site{Files: unreadable}, Unknown, "weir.yaml", "as root"},
		{"bus of unreadable files", "bootstrap", Site{Files: unreadable, Silent: unreadable}, Unknown, "the files name the bus", "the files"},
		{"keys of unreadable files", "secret files", Site{Files: unreadable}, Unknown, "the files name the files with keys", "the files"},
		{"no pool on this host", "configuration", Site{Configs: "/etc/weir", Absent: true, Silent: silent}, Note, "only the host of bootstrap needs", "on that host"},
		{"nothing on this host", "configuration", Site{Configs: "/etc/weir", Absent: true, Plain: true, Silent: silent}, Failed, "no pool is configured on this host", `"weir up"`},
		{"no keys on this host", "secret files", Site{Absent: true, Silent: silent}, OK, "no file with keys is named", ""},
		{"no tick", "ticks", Site{Status: statusOf(own), Late: "no tick since 01:46:35, 1m ago"}, Failed, "no tick since 01:46:35", "the log of the autoscaler"},
		{"bootstrap runs", "bootstrap", Site{Status: statusOf(own)}, OK, "process 7", ""},
		{"bootstrap is silent", "bootstrap", Site{Silent: silent}, Failed, "no bootstrap runs here", "weir bootstrap"},
		{"bootstrap refuses", "bootstrap", Site{Status: &api.BootstrapStatus{Refused: "line 3"}}, Failed, "line 3", "correct the files"},
		{"own users", "signal users", Site{Status: statusOf(own)}, OK, "a separate user", ""},
		{"same user", "signal users", Site{Status: statusOf(own, same)}, Failed, "signals of api run as the user of bootstrap", "run bootstrap as root"},
		{"same user of a candidate", "signal users", Site{Status: statusOf(own, beside)}, Failed, "signals of api", "run bootstrap as root"},
		{"same user of what has ended", "signal users", Site{Status: statusOf(own, ended)}, OK, "", ""},
		{"users unknown", "signal users", Site{Silent: silent}, Unknown, "bootstrap does not answer", ""},
		{"limits hold", "signal limits", Site{Status: statusOf(own)}, OK, "enforced", ""},
		{"limits do not hold", "signal limits", Site{Status: statusOf(unenforced, ended)}, Failed, "signals of web are not enforced: CPUs: no cgroup v2", "Delegate=yes"},
		{"limits unknown", "signal limits", Site{Silent: silent}, Unknown, "bootstrap does not answer", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := found(examine(t, c.site), c.check)
			if len(of) != 1 || of[0].Result != c.want || !strings.Contains(of[0].Detail, c.detail) || !strings.Contains(of[0].Fix, c.fix) {
				t.Errorf("found %+v, want one %s with %q and the fix %q", of, c.want, c.detail, c.fix)
			}
			if (of[0].Fix == "") != (c.want == OK) {
				t.Errorf("result %s with the fix %q", c.want, of[0].Fix)
			}
		})
	}
}

// Signals run on the host of bootstrap: another host without its answer has no finding of them.
func TestSignalsOfAnotherHost(t *testing.T) {
	s := Site{Absent: true, Silent: errors.New("no server")}
	if found := append(signalUsers(s), signalLimits(s)...); found != nil {
		t.Errorf("found %+v", found)
	}
}

func TestSecretFiles(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	folder, err := os.MkdirTemp("/tmp", "weir-doctor-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	keys, service := filepath.Join(folder, "keys.json"), filepath.Join(folder, "weir.yaml")
	for _, file := range []string{keys, service} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	site := Site{Configs: folder, Status: statusOf(), Service: config.Service{
		AWS: config.AWS{AccessKeyFile: keys}, NATS: bus.NATS{Servers: []string{"nats://weir:password@127.0.0.1:4222"}},
	}}
	for _, c := range []struct {
		folder, file os.FileMode
		failed       int
	}{{0o755, 0o600, 0}, {0o755, 0o640, 0}, {0o755, 0o644, 2}, {0o700, 0o644, 0}} {
		for path, mode := range map[string]os.FileMode{folder: c.folder, keys: c.file, service: c.file} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		of := found(examine(t, site), "secret files")
		if healthy := Healthy(of); healthy != (c.failed == 0) || c.failed > 0 && len(of) != c.failed {
			t.Errorf("folder %04o, files %04o: %+v, want %d to fail", c.folder, c.file, of, c.failed)
		}
	}
}

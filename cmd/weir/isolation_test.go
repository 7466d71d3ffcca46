package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// runAs runs a command as a user; 0 is this process's own one.
func runAs(user int, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	if user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	}
	return cmd.CombinedOutput()
}

// A signal has no secret of the environment, and what runs as its user can neither read
// bootstrap's environment nor the keys. Where signals run as bootstrap's own user, status and
// doctor report it.
func TestUpIsolatesSignals(t *testing.T) {
	t.Parallel()
	missing, err := supervise.MissingCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	own := len(missing) == 0
	u := startUp(t, t.TempDir())
	apps := u.runningSignal(t, "apps")
	u.runningSignal(t, sigproto.DefaultApp)
	var processes api.BootstrapStatus
	u.pool(t, "all processes", func(s api.PoolStatus) error {
		if s.Processes == nil || s.Processes.Autoscaler.PID == 0 {
			return errors.New("no autoscaler")
		}
		processes = *s.Processes
		return nil
	})
	for _, p := range processes.Signals {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(environ, []byte("CMAN_POOL=")) || bytes.Contains(environ, []byte(testSecret)) {
			t.Errorf("signal of %s has the environment %q, want the pool and no secret", p.App, environ)
		}
		if (p.User != 0) != own || (p.SameUser == "") != own {
			t.Errorf("signal of %s is %+v; own users are possible: %v", p.App, p, own)
		}
		for _, pid := range []int{processes.PID, processes.Autoscaler.PID} {
			out, err := runAs(p.User, "cat", fmt.Sprintf("/proc/%d/environ", pid))
			if err == nil || !strings.Contains(string(out), "Permission denied") {
				// Root can read it, where signals are root too.
				if p.User != 0 || os.Getuid() != 0 {
					t.Errorf("the user of the signal of %s reads the environment of process %d: %q, %v", p.App, pid, out, err)
				}
			}
		}
	}
	if keys := filepath.Join(u.data, "s3", "keys.json"); own {
		if _, err := os.Stat(keys); err != nil {
			t.Fatal(err)
		}
		if out, err := runAs(apps.User, "cat", keys); err == nil {
			t.Errorf("the user of a signal reads %s: %q", keys, out)
		}
	}
	status := u.weir(t, "status")
	if says := strings.Contains(status, "run as the user of bootstrap, and can read its keys: "); says == own {
		t.Errorf("own users are possible: %v, and status is\n%s", own, status)
	}
	// Its exit code depends on all checks, those of the host's cgroups too.
	said := weir("--data", u.data, "doctor").stdout
	if says := strings.Contains(said, "ok       signal users: each signal runs as a separate user\n"); says != own {
		t.Errorf("own users are possible: %v, and doctor prints\n%s", own, said)
	}
	if reason := " without " + strings.Join(missing, ", ") + ": "; !own && (!strings.Contains(status, reason) || !strings.Contains(said, reason)) {
		t.Errorf("the reason is missing in\n%s\n%s", status, said)
	}
}

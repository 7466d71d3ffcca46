//go:build root

package packages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// host is a machine on which systemd is process 1: namespaces of its own for processes, mounts and cgroups. Its files are
// those of this machine, with changes that end with the test. It shares the network.
type host struct {
	testing.TB
	root   string // path of its files on this machine
	leader int    // process id of systemd on this machine
}

// mounts makes the files of a host in the folder $1, with those of the folder $2 if it is not empty, and the cgroup $3 of
// the host. It then starts the script $4 in namespaces of its own.
const mounts = `set -e
mkdir -p $1/cgroups $1/changes $1/root
mount -t cgroup2 none $1/cgroups
mkdir $1/cgroups/$3
echo $$ > $1/cgroups/$3/cgroup.procs
mount -t tmpfs none $1/changes
mkdir -p $1/changes/upper/opt $1/changes/work
cp $DEB $1/changes/upper/opt/weir.deb
mount -t overlay none -o lowerdir=/,upperdir=$1/changes/upper,workdir=$1/changes/work $1/root
cd $1/root
mkdir -p old
if [ -n "$2" ]; then tar -C "$2" -c . | tar -x --keep-directory-symlink; fi
# The test starts what it needs: no other unit of this machine runs.
rm -rf etc/systemd/system usr/lib/systemd/system/*.wants usr/lib/systemd/system-generators
exec unshare --mount --cgroup --pid --ipc --uts --fork --kill-child sh -ec "$4"
`

// start makes the host's own mounts, and becomes systemd as soon as the package is installed.
const start = `mount -t proc none proc
mount -o bind proc/sys proc/sys
mount -o bind,remount,ro proc/sys
mount -t sysfs -o ro none sys
mount -t cgroup2 none sys/fs/cgroup
mount --rbind /dev dev
for f in run tmp var/tmp; do mount -t tmpfs none $f; done
pivot_root . old
umount -l /old
mount --make-rshared / # systemd mounts credentials in a namespace of the unit's
unset NOTIFY_SOCKET
mkdir -p /etc/systemd/system
dpkg --no-triggers --force-depends --install /opt/weir.deb
printf '[Unit]\nDescription=the host of a test\nRequires=systemd-journald.service\n' > /etc/systemd/system/host.target
export container=weir-test
exec /lib/systemd/systemd --system --unit=host.target --log-target=console --show-status=no
`

// boot starts a host with the package. If this machine has no systemd, the host has that of Debian's packages.
func boot(t *testing.T, deb string) *host {
	t.Helper()
	more := ""
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
		more = fetched(t)
	}
	dir := t.TempDir()
	name := filepath.Base(filepath.Dir(dir)) + "-" + strconv.Itoa(os.Getpid())
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", mounts, "sh", dir, more, name, start)
	cmd.Env = append(os.Environ(), "DEB="+deb)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // Pdeathsig follows the thread, which ends with the goroutine
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	h := &host{TB: t}
	t.Cleanup(func() {
		if h.leader == 0 || syscall.Kill(h.leader, syscall.SIGKILL) != nil { // the kernel ends all processes of the host with it
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		<-ended
		remove := `mount -t cgroup2 none $1; find $1/$2 -depth -type d -exec rmdir {} +`
		if out, err := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-ec", remove, "sh", t.TempDir(), name).CombinedOutput(); err != nil {
			t.Errorf("remove the cgroups of the host: %v\n%s", err, out)
		}
		if t.Failed() {
			t.Logf("console of the host:\n%s", out.String())
		}
	})
	await.Nil(t, "the start of systemd", func() error {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the host does not start: %v\n%s", err, out.String())
		default:
		}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		if err != nil {
			return err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
		if err != nil {
			return fmt.Errorf("children %q", children)
		}
		h.leader, h.root = pid, fmt.Sprintf("/proc/%d/root", pid)
		_, err = h.try("systemctl", "is-active", "host.target")
		return err
	})
	return h
}

// try runs a command on the host.
func (h *host) try(argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	args := append([]string{
		"--target", strconv.Itoa(h.leader), "--mount", "--cgroup", "--pid", "--ipc", "--uts", "--root", "env", "-i", "--chdir=/root", "HOME=/root",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
	}, argv...)
	out, err := exec.CommandContext(ctx, "nsenter", args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out), err
}

// run runs a command on the host and returns its output.
func (h *host) run(argv ...string) string {
	h.Helper()
	out, err := h.try(argv...)
	if err != nil {
		h.Fatal(err)
	}
	return out
}

// write writes a file of the host.
func (h *host) write(path, text string) {
	h.Helper()
	path = filepath.Join(h.root, path)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		h.Fatal(err)
	}
}

// unitState is the state of a unit by systemd.
type unitState struct {
	active, result string
	pid, restarts  int // pid: of its main process, on the host
}

func (h *host) state(name string) (u unitState, err error) {
	out, err := h.try("systemctl", "show", "--property=ActiveState,Result,MainPID,NRestarts", name)
	if err != nil {
		return u, err
	}
	var bad []error
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		var err error
		switch key {
		case "ActiveState":
			u.active = value
		case "Result":
			u.result = value
		case "MainPID":
			u.pid, err = strconv.Atoi(value)
		case "NRestarts":
			u.restarts, err = strconv.Atoi(value)
		}
		bad = append(bad, err)
	}
	return u, errors.Join(bad...)
}

// journal returns the log of a unit.
func (h *host) journal(name string) string {
	out, err := h.try("journalctl", "--no-pager", "--output=cat", "--unit="+name)
	return out + fmt.Sprint(err)
}

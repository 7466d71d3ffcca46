package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroup is the folder of a cgroup v2. An empty value means no cgroup.
//
// A launcher creates one, weir-TAG, and below it one for each child. Nothing else is in it, so killing it reaches
// everything that the launcher started.
type cgroup string

const (
	cgroupPrefix  = "weir-"
	maxCgroupPath = 3 << 10 // bytes; the path must fit into a line of the register

	// delegateMark is the extended attribute by which systemd marks a cgroup that it delegates to a unit.
	delegateMark = "user.delegate"
)

var errNoCgroup = errors.New("no cgroup v2")

// locateCgroup returns the cgroup that the launcher with this tag should create. It is below the process's own
// cgroup. If that one is the subgroup of a delegated unit, it is beside it, because a cgroup that contains processes
// cannot enable controllers for its children.
func locateCgroup(tag string) (cgroup, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoCgroup, err)
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoCgroup, err)
	}
	parent, err := findCgroup(mounts, membership)
	if err != nil {
		return "", err
	}
	if above := parent.parent(); above.delegated() {
		parent = above
	}
	g := parent.child(cgroupPrefix + tag)
	if len(g) > maxCgroupPath || strings.Contains(string(g), "\n") {
		return "", fmt.Errorf("%w: its path, of %d bytes, is too long or has a line break", errNoCgroup, len(g))
	}
	return g, nil
}

// findCgroup returns the cgroup that membership (/proc/PID/cgroup) names, below one of mounts (/proc/PID/mountinfo, see
// proc(5)).
func findCgroup(mounts, membership []byte) (cgroup, error) {
	path := cgroupIn(membership)
	if !filepath.IsAbs(path) || filepath.Clean(path) != path { // "/.." is above the namespace's root
		return "", fmt.Errorf("%w: this process is in no cgroup that it can read", errNoCgroup)
	}
	for line := range bytes.Lines(mounts) {
		mount, filesystem, ok := strings.Cut(string(line), " - ")
		fields := strings.Fields(mount)
		if !ok || len(fields) < 5 || !strings.HasPrefix(filesystem, "cgroup2 ") {
			continue
		}
		root, point := fields[3], fields[4]
		below, err := filepath.Rel(root, path)
		if err == nil && filepath.IsLocal(below) && !strings.Contains(point, `\`) {
			return cgroup(filepath.Join(point, below)), nil
		}
	}
	return "", fmt.Errorf("%w: it is not mounted", errNoCgroup)
}

func (g cgroup) parent() cgroup           { return cgroup(filepath.Dir(string(g))) }
func (g cgroup) child(name string) cgroup { return cgroup(filepath.Join(string(g), name)) }
func (g cgroup) file(name string) string  { return filepath.Join(string(g), name) }

// delegated reports whether systemd delegates the cgroup to its unit.
func (g cgroup) delegated() bool {
	value := make([]byte, 2)
	n, err := unix.Getxattr(string(g), delegateMark, value)
	return err == nil && string(value[:n]) == "1"
}

// create creates the cgroup. It returns an error if the kernel has no cgroup.kill.
func (g cgroup) create() error {
	if err := os.Mkdir(string(g), 0o755); err != nil {
		return fmt.Errorf("%w: %w", errNoCgroup, err)
	}
	if _, err := os.Stat(g.file("cgroup.kill")); err != nil {
		_ = os.Remove(string(g))
		return fmt.Errorf("%w: the kernel cannot kill one: %w", errNoCgroup, err)
	}
	return nil
}

// enable enables a controller for the cgroups below g. The parent of g must offer the controller.
func (g cgroup) enable(controller string) error {
	for _, dir := range [2]cgroup{g.parent(), g} {
		if dir.lists("cgroup.subtree_control", controller) {
			continue
		}
		if !dir.lists("cgroup.controllers", controller) {
			return fmt.Errorf("cgroup %s has no controller %s", dir, controller)
		}
		err := dir.write("cgroup.subtree_control", "+"+controller)
		if errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("cgroup %s has processes of its own, so it cannot enable controller %s for its children", dir, controller)
		}
		if err != nil {
			return fmt.Errorf("enable controller %s: %w", controller, err)
		}
	}
	return nil
}

// lists reports whether a file of the cgroup, which holds words separated by spaces, contains word.
func (g cgroup) lists(file, word string) bool {
	text, err := os.ReadFile(g.file(file))
	return err == nil && slices.Contains(strings.Fields(string(text)), word)
}

func (g cgroup) write(file, value string) error {
	f, err := os.OpenFile(g.file(file), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// kill kills all processes in the cgroup and below it.
func (g cgroup) kill() {
	if g != "" {
		_ = g.write("cgroup.kill", "1") // an error means that it is gone; otherwise remove reports it
	}
}

// remove removes the cgroup and those below it. A missing cgroup is not an error. The error is EBUSY while one of them
// contains a process; zombies do not count.
func (g cgroup) remove() error {
	if g == "" {
		return nil
	}
	err := syscall.Rmdir(string(g))
	if err == syscall.EBUSY || err == syscall.ENOTEMPTY {
		entries, _ := os.ReadDir(string(g)) // the second Rmdir reports any error
		for _, e := range entries {
			if e.IsDir() {
				_ = g.child(e.Name()).remove() // the second Rmdir reports any error
			}
		}
		err = syscall.Rmdir(string(g))
	}
	if err != nil && err != syscall.ENOENT {
		return &fs.PathError{Op: "remove cgroup", Path: string(g), Err: err}
	}
	return nil
}

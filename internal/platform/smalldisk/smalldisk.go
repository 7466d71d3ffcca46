// Package smalldisk gives a test its own small file system. It is a tmpfs in a user namespace and a mount namespace,
// so it needs no root. TestMain calls [Mount] first:
//
//	if _, err := smalldisk.Mount(); err != nil { ... }
//
// and a test begins with
//
//	dir, inside := smalldisk.On(t, 100<<20, ".")
//	if !inside {
//		return
//	}
//
// Tests of full disks use it. One process has one such file system.
package smalldisk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// variable has the test binary's mount: "BYTES FOLDER MOUNTPOINT".
const variable = "WEIR_TEST_SMALL_DISK"

// Mount mounts the file system in a process of On, and reports whether this is one. Processes that such a test starts
// must not call it.
func Mount() (inside bool, err error) {
	value := os.Getenv(variable)
	if value == "" {
		return false, nil
	}
	size, rest, _ := strings.Cut(value, " ")
	_, path, _ := strings.Cut(rest, " ")
	if err := os.MkdirAll(path, 0o700); err != nil {
		return true, err
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		return true, fmt.Errorf("mount a file system of %s bytes on %s: %w", size, path, err)
	}
	return true, nil
}

// On repeats the calling test in a process with its own file system of that size, mounted at the path below a folder.
// It reports whether this is that process. It fails the test if the repeated test fails, or if the system has no user
// namespaces.
func On(t *testing.T, size int, below string) (folder string, inside bool) {
	t.Helper()
	if value := os.Getenv(variable); value != "" {
		return strings.Fields(value)[1], true
	}
	folder = t.TempDir()
	Repeat(t, fmt.Sprintf("%s=%d %s %s", variable, size, folder, filepath.Join(folder, below)), unix.CLONE_NEWNS)
	return folder, false
}

// Repeat repeats the calling test in a process with a user namespace and more namespaces, a variable of its own, and
// these capabilities besides CAP_SYS_ADMIN. It fails the test if the repeated test fails, or if the system has no user
// namespaces.
func Repeat(t *testing.T, setting string, namespaces uintptr, capabilities ...uintptr) {
	t.Helper()
	runtime.LockOSThread() // Pdeathsig follows the thread
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+left(t))
	cmd.Env = append(os.Environ(), setting)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:   syscall.SIGKILL,
		Cloneflags:  unix.CLONE_NEWUSER | namespaces,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		AmbientCaps: append(capabilities, unix.CAP_SYS_ADMIN), // otherwise exec drops them
	}
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Run(); err != nil {
		t.Errorf("in a process with own namespaces, which needs user namespaces: %v", err)
	}
}

// left returns the remaining time of the test; "0" means no limit.
func left(t *testing.T) string {
	end, bounded := t.Deadline()
	if !bounded {
		return "0"
	}
	return max(time.Until(end), time.Second).String()
}

// Fill uses all space of a file system. The returned function frees it.
func Fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	file, err := os.CreateTemp(dir, "filler-*")
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for len(chunk) > 0 {
		_, err := file.Write(chunk)
		if errors.Is(err, syscall.ENOSPC) {
			chunk = chunk[:len(chunk)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(file.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

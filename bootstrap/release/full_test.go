package release_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/s3store"
)

// fullEnv makes this binary a process that fetches v1 and then releases that do not fit: "HOW ENDPOINT DIR". HOW is
// tmpfs or limit.
const fullEnv = "WEIR_RELEASE_TEST_FULL"

const room = 256 << 10 // bytes

// fullReport is the output of that process.
type fullReport struct {
	Fault   string            // failure of the test's own steps
	Refusal map[string]string // by version: "" if it is not ErrNoSpace
	Changed map[string]string // by version: differences in the cache
}

var tooLarge = []string{"random", "zeros"} // by archive, by files

func runIfFull() {
	spec, ok := os.LookupEnv(fullEnv)
	if !ok {
		return
	}
	report := fullReport{Refusal: map[string]string{}, Changed: map[string]string{}}
	how := strings.Split(spec, " ")
	if err := report.fill(how[0], how[1], how[2]); err != nil {
		report.Fault = err.Error()
	}
	json.NewEncoder(os.Stdout).Encode(report)
	os.Exit(0)
}

func (r fullReport) fill(how, endpoint, dir string) error {
	var err error
	if how == "tmpfs" {
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k")
	} else {
		signal.Ignore(unix.SIGXFSZ)
		err = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: room, Max: room})
	}
	if err != nil {
		return err
	}
	b, err := s3store.Open(context.Background(), s3store.Config{
		Bucket: bucketName, Prefix: "some/prefix", Region: "us-east-1", Endpoint: endpoint, PathStyle: true,
	})
	if err != nil {
		return err
	}
	c, err := release.OpenCache(context.Background(), release.Config{Dir: dir, Platform: linux})
	if err != nil {
		return err
	}
	if _, err := c.Fetch(context.Background(), b, v1); err != nil {
		return err
	}
	before := listing(dir)
	for _, version := range tooLarge {
		_, err := c.Fetch(context.Background(), b, release.Ref{Namespace: v1.Namespace, Name: v1.Name, Version: version})
		if errors.Is(err, release.ErrNoSpace) {
			r.Refusal[version] = err.Error()
		}
		if after := listing(dir); after != before {
			r.Changed[version] = after
		}
	}
	_, err = c.Fetch(context.Background(), b, v1)
	return err
}

// listing returns the paths of all files below dir.
func listing(dir string) string {
	var paths []string
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, strings.TrimPrefix(path, dir))
		}
		return nil
	})
	return strings.Join(paths, "\n")
}

// Without space a release fails with ErrNoSpace, leaves nothing, and the other release is unchanged. The test uses a
// full file system if this process may mount one, and a file size limit.
func TestFetchWithoutSpace(t *testing.T) {
	server, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": "small"})
	for version, content := range map[string]string{"random": incompressible(1 << 20), "zeros": strings.Repeat("\x00", 1<<20)} {
		publish(t, b, release.Ref{Namespace: v1.Namespace, Name: v1.Name, Version: version}, map[string]string{"run*": content})
	}
	for _, how := range []string{"limit", "tmpfs"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), fullEnv+"="+how+" "+server.Endpoint+" "+t.TempDir())
			cmd.Stderr = os.Stderr
			if how == "tmpfs" {
				cmd.SysProcAttr = &syscall.SysProcAttr{
					Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
					UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
					GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
				}
			}
			out, err := cmd.Output()
			if how == "tmpfs" && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EACCES)) {
				t.Logf("this process may not make a file system of its own (%v): the limit of a file's size is all that is seen", err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var report fullReport
			if err := json.Unmarshal(out, &report); err != nil || report.Fault != "" {
				t.Fatalf("%s %v: %s", report.Fault, err, out)
			}
			for _, version := range tooLarge {
				t.Log(report.Refusal[version])
				if report.Refusal[version] == "" {
					t.Errorf("Fetch of %s is not ErrNoSpace", version)
				}
			}
			diff(t, "left in the cache", report.Changed, map[string]string{})
		})
	}
}

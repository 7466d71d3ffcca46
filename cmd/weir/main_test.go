package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/cli"
	"github.com/weirkeeper/weirkeeper/internal/cli/localworld"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/children"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
	"github.com/weirkeeper/weirkeeper/internal/platform/smalldisk"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// asWeir makes the test binary be weir. It is that program without this variable under the
// names of weir and weir-local, and as a keeper or a signal: they do not get it.
const asWeir = "WEIR_TEST_AS_WEIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(guardVariable); dir != "" {
		runGuard(dir)
		return
	}
	if bustest.RunServer() {
		return
	}
	s3test.RunIfChild()
	supervised := len(os.Args) > 1 && (os.Args[1] == "keep" || os.Args[1] == "signal")
	if os.Getenv(asWeir) != "" && !supervised { // it ends with the test that started it, also if the test is killed
		if err := children.EndWithParent(); err != nil {
			panic(err)
		}
	}
	switch name := filepath.Base(executable()); {
	case name == "weir-local":
		os.Exit(localworld.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	case name == intruderName:
		os.Exit(intrude())
	case name == clockName:
		os.Exit(runClock())
	case name == "weir" || os.Getenv(asWeir) != "" || supervised:
		main()
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-test-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Most of what the tests take is waiting. More of them at the same time would miss the
	// deadlines of the product.
	err = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	inside := false
	if err == nil {
		inside, err = smalldisk.Mount()
		inside = inside || os.Getenv(hostsVariable) != ""
	}
	if err == nil && !inside { // inside, what prepare makes is there
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// testSecret is in the environment of all that the tests start.
const testSecret = "postgres://user:secret@host/"

// executable returns the path of this process's program.
func executable() string {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	return path
}

// prepare places the signal that "weir up" publishes, and weir and weir-local: those without the race detector, and this test
// binary under their names.
func prepare(dir string) error {
	// Each "weir up" packs it and unpacks it: without symbols that takes half of the time.
	program, err := testprograms.Own(context.Background(), dir, "examples/signals/instance_count")
	if err == nil {
		err = place(program, filepath.Join(dir, "signals", "instance_count"))
	}
	if err != nil {
		return err
	}
	// Other users reach the programs, and see nothing else.
	const searchable = 0o711
	if err := os.Chmod(dir, searchable); err != nil {
		return err
	}
	bin, raced := filepath.Join(dir, "bin"), filepath.Join(dir, "raced")
	plain := testprograms.Plain("cmd/weir", executable())
	for path, program := range map[string]string{
		filepath.Join(bin, "weir"): testprograms.Weir(plain), filepath.Join(bin, "weir-local"): plain, filepath.Join(bin, intruderName): plain, filepath.Join(bin, clockName): plain,
		filepath.Join(raced, "weir"): executable(), filepath.Join(raced, "weir-local"): executable(),
	} {
		if err := place(program, path); err != nil {
			return err
		}
	}
	for name, value := range map[string]string{
		"WEIR_SIGNALS_DIR": filepath.Join(dir, "signals"),
		"WEIR_TEST_BIN":    bin,
		racedVariable:      raced,
		"GORACE":           "atexit_sleep_ms=0", // of our processes, which end often
		"DATABASE_URL":     testSecret,
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// place links a program, or copies it from another file system.
func place(program, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Link(program, path); !errors.Is(err, syscall.EXDEV) {
		return err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	return testprograms.Write(path, string(data))
}

// result is what a command printed, and its exit code.
type result struct {
	stdout, stderr string
	code           int
}

// output is what a command prints. The client of NATS may report an error after the end of the command.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// weir runs a command in this process.
func weir(args ...string) result {
	var stdout, stderr output
	code := cli.Run(args, bytes.NewReader(nil), &stdout, &stderr)
	return result{stdout.String(), stderr.String(), code}
}

// installations are the turns of tests that run whole installations.
var installations turns

// offspring starts what ends with this test binary.
var offspring children.Starter

// patience bounds each call of a test that has a deadline of its own.
const patience = await.Patience

// runScenes runs each scene as a parallel subtest.
func runScenes(t *testing.T, scenes map[string]func(*testing.T)) {
	for name, scene := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scene(t)
		})
	}
}

// eventually calls look until it returns nil.
func eventually(tb testing.TB, what string, look func() error) {
	tb.Helper()
	await.Nil(tb, what, look)
}

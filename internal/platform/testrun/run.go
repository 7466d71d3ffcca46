package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
)

// timed is a test and the time that it took, without its subtests' names.
type timed struct {
	pkg, name string
	took      time.Duration
}

// result is what one process did. err is nil if all passed.
type result struct {
	pkg   string
	err   error
	tests []timed
}

// job is one process with tests of a package: all of them, or a part.
type job struct {
	*pkg
	part     string   // empty: all tests
	settings []string // of the test binary
	env      []string // more of it
}

// part are tests of a package that run in a process of their own, from the beginning.
type part struct{ name, tests string }

// parts are tests that take minutes, by package, so that at the end nothing waits for the last of them. Those of the part
// "plain" use the test binary of [testprograms.Plain]: they run whole installations, whose programs have no race detector
// anyway, and with one the test itself took more processor time than all that it started. A server of nats-server 2.15 in the
// test's process must not read its options again under the race detector while clients read from streams: it has a race there.
var parts = map[string][]part{"cmd/weir": {
	{"plain", "^Test(" +
		"BadReleases|BusFaults|ClosedConnectionEndsEachDaemon|CorruptRelease|DamagedManifest|DamagedRows|DamagedStoreShrinksNoPool" +
		"|DashboardOfFaults" +
		"|ForgerBesideRunningDaemons|HaltedAutoscalerIsShownAndRestarted|Health|MachineIsKilled|ManyUpsOnOneHost" +
		"|NewerSchemaUnderRunningDaemons|PoolAlertsFireAndEnd|PoolFollowsPrometheus|PoolOfAServer|ProductionPage" +
		"|PublishOnTag|RestoreOfAnOlderCopy|RolesRunEverything|Scripts|SignalIsKilled|Twins|UnansweredRequestsAreNamed" +
		"|UndecodableStateIsSetAside|UpAdmitsNoStranger|UpFollowsAnApp|UpHasRoles|UpIsKilledAndGoesOn" +
		"|UpLogsJSONAndExportsTraces|UpWithFewFiles|UpWithoutBucket" +
		")$"},
	{"slow", "^Test(Convergence|DayOfAPool|ThreeHosts)$"},
}}

// jobs returns the processes, in the order of their start: parts first, then the largest test binaries, which take the
// longest. With full, all tests of the parts have the race detector.
func jobs(packages []*pkg, only string, full bool, settings []string) []job {
	var first, all []job
	slices.SortStableFunc(packages, func(a, b *pkg) int { return int(size(b.binary) - size(a.binary)) })
	for _, p := range packages {
		name := strings.TrimPrefix(p.path, module)
		if len(parts[name]) == 0 || only != "" {
			all = append(all, job{p, "", append(slices.Clone(settings), "-test.run="+only), nil})
			continue
		}
		var skip []string
		for _, part := range parts[name] {
			j := job{p, part.name, append(slices.Clone(settings), "-test.run="+part.tests), nil}
			if part.name == "plain" && !full {
				plain := *p
				plain.binary = testprograms.Plain(name, p.binary)
				j.pkg, j.env = &plain, []string{testsize.FewerVariable + "=1"}
			}
			first, skip = append(first, j), append(skip, part.tests)
		}
		all = append(all, job{p, "others", append(slices.Clone(settings), "-test.skip="+strings.Join(skip, "|")), nil})
	}
	return append(first, all...)
}

// runAll runs the processes side by side.
func runAll(ctx context.Context, all []job) (results []result) {
	next := make(chan job)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range lanes() {
		wg.Go(func() {
			for j := range next {
				r := run(ctx, j, &mu)
				mu.Lock()
				results = append(results, r)
				mu.Unlock()
			}
		})
	}
	for _, j := range all {
		if ctx.Err() != nil {
			break
		}
		next <- j
	}
	close(next)
	wg.Wait()
	return results
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// run runs a process, and prints a line about it, and the output of each failed test. printing guards the standard output.
func run(ctx context.Context, j job, printing *sync.Mutex) result {
	began := time.Now()
	r := result{pkg: strings.TrimPrefix(j.path, module)}
	name, file := r.pkg, strings.TrimSuffix(j.binary, ".test")
	if j.part != "" {
		name, file = name+" ("+j.part+")", file+"."+j.part
	}
	out := &output{text: map[string]*bytes.Buffer{}}
	var used time.Duration
	log, err := os.Create(file + ".log")
	if err == nil {
		used, err = start(ctx, j, io.MultiWriter(log, out))
		err = cmp.Or(err, log.Close())
	}
	r.err = err
	for _, t := range out.passed {
		r.tests = append(r.tests, timed{r.pkg, t.name, t.took})
	}
	printing.Lock()
	defer printing.Unlock()
	if err == nil {
		fmt.Printf("ok    %s  %v, %v of processor time\n", name, since(began), used)
		return r
	}
	fmt.Printf("%sFAIL  %s  %v: %v; all output is in %s\n", out.failures(), name, since(began), err, log.Name())
	return r
}

// start runs the test binary in the folder of its package until it ends, and returns the processor time of it and of the
// processes that it waited for. The process ends with this one: the kernel sends it a signal when the thread that started
// it ends.
func start(ctx context.Context, j job, out io.Writer) (used time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, j.binary, j.settings...)
	// What tests let the Go command build shares the build cache with the programs of this module. A race detector would
	// sleep for 1 s at the end of each process. Fewer collections save a seventh of the processor time of the largest packages.
	cmd.Dir, cmd.Env = j.dir, append(append(os.Environ(), testprograms.Flags()...), "PWD="+j.dir, "GORACE=atexit_sleep_ms=0", "GOGC=400")
	cmd.Env = append(cmd.Env, j.env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	return processorTime(cmd).Round(time.Second), err
}

// processorTime returns what an ended command used, with the processes that it waited for.
func processorTime(cmd *exec.Cmd) time.Duration {
	if cmd.ProcessState == nil {
		return 0 // it did not start
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// output attributes the output of a test binary with -test.v=test2json to its tests.
type output struct {
	mu      sync.Mutex
	rest    []byte
	current string
	text    map[string]*bytes.Buffer // of tests that have not passed
	failed  []string
	passed  []timed // tests without a parent, the failed ones too
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, p...)
	for {
		line, rest, whole := bytes.Cut(o.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		o.rest = rest
		o.line(string(line))
	}
}

// mark is before each line of the testing package itself.
const mark = "\x16"

var verdict = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (.+) \(([0-9.]+)s\)$`)

func (o *output) line(line string) {
	before, own, marked := strings.Cut(line, mark)
	if before != "" || !marked {
		o.bufferOf(o.current).WriteString(before + "\n")
	}
	if !marked {
		return
	}
	if m := verdict.FindStringSubmatch(own); m != nil {
		o.current = m[2]
		o.ends(m[2], m[1], m[3])
		return
	}
	if kind, name, ok := strings.Cut(strings.TrimPrefix(own, "=== "), " "); ok && kind != "PAUSE" {
		o.current = strings.TrimSpace(name)
	} else {
		o.current = ""
	}
}

// ends stores the verdict on a test. Only the text of failed tests is kept.
func (o *output) ends(name, what, seconds string) {
	took, err := time.ParseDuration(seconds + "s")
	if what == "FAIL" {
		o.failed = append(o.failed, name)
	}
	waited := waitOf(o.bufferOf(name).String())
	if err == nil && !strings.Contains(name, "/") {
		o.passed = append(o.passed, timed{name: name, took: took - waited})
	}
	if what != "FAIL" {
		delete(o.text, name)
	}
}

var waiting = regexp.MustCompile(`waited (\S+) for a turn`)

// waitOf returns the time that a test waited for its turn.
func waitOf(text string) (total time.Duration) {
	for _, m := range waiting.FindAllStringSubmatch(text, -1) {
		if d, err := time.ParseDuration(m[1]); err == nil {
			total += d
		}
	}
	return total
}

func (o *output) bufferOf(name string) *bytes.Buffer {
	if o.text[name] == nil {
		o.text[name] = &bytes.Buffer{}
	}
	return o.text[name]
}

// failures returns the output of the failed tests. If a test binary ended without a verdict, it is that of all tests that
// have not passed.
func (o *output) failures() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	show := o.failed
	if len(show) == 0 {
		for name := range o.text {
			show = append(show, name)
		}
	} else if o.text[""] != nil {
		show = append([]string{""}, show...) // the seed of the order
	}
	slices.Sort(show)
	for _, name := range slices.Compact(show) {
		if name != "" {
			fmt.Fprintf(&b, "--- FAIL: %s\n", name)
		}
		b.WriteString(o.bufferOf(name).String())
	}
	return b.String()
}

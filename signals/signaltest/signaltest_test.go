package signaltest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/signals/signaltest"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func TestMain(m *testing.M) {
	// The tests wait for processes more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// program returns a program below testdata.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := testprograms.Own(t.Context(), t.TempDir(), "signals/signaltest/testdata/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// impatience is how long a signal with the mistake "impatient" waits for a length.
const impatience = 5 * time.Second

// patient are limits that a signal keeps on a busy machine.
func patient() signaltest.Limits {
	return signaltest.Limits{Start: await.Patience, Listen: await.Patience, Answer: await.Patience, Exit: await.Patience, Rest: 50 * time.Millisecond}
}

// short are limits of the check that fails. Some mistakes let a signal wait for ever: they last so long.
func short(limit time.Duration) signaltest.Limits {
	return signaltest.Limits{Start: limit, Listen: limit, Answer: limit, Exit: limit, Rest: 50 * time.Millisecond}
}

// Each broken signal fails exactly the check that detects its mistake.
func TestBrokenSignals(t *testing.T) {
	broken := program(t, "broken")
	tests := []struct{ mistake, want string }{
		{"none", ""},
		{"listens_elsewhere", "listens"},
		{"name_ends_with_nul", "listens"},
		{"wrong_ack", "answers"},
		{"little_endian", "answers"},
		{"starts_slowly", "starts_soon"},
		{"hello_wants_newline", "answers"},
		{"pid_file", "restart"},
		{"ignores_sigterm", "sigterm"},
		{"sigterm_is_an_error", "sigterm"},
		{"no_usage", "usage"},
		{"prints", "stdout"},
		{"app_without_suffix", "distinct_app"},
		{"hello_drops_rest", "hello_with_length"},
		{"hello_reads_once", "split_hello"},
		{"hello_counts_braces", "split_hello"},
		{"hello_decodes_reads", "split_hello"},
		{"impatient", "silence"},
		{"reads_once", "split_body"},
		{"needs_metrics", "empty_window"},
		{"needs_points", "empty_series"},
		{"small_buffer", "huge_window"},
		{"strict_keys", "unknown_keys"},
		{"short_numbers", "full_mantissas"},
		{"one_at_a_time", "second_connection"},
		{"negative", "resources"},
		{"no_resources", "resources"},
		{"verdict_number", "verdict"},
		{"verdict_other", "verdict"},
		{"stale_with_value", "verdict"},
		{"explanation_list", "verdict"},
		{"long_answer", "answer_size"},
		{"two_writes", "one_write"},
		{"one_evaluation", "keeps_connection"},
		{"says_goodbye", "nothing_after"},
		{"counts", "repeats"},
		{"takes_nan", "nan_refused"},
		{"takes_utf16", "body_utf8"},
		{"takes_mark", "body_utf8"},
		{"takes_null_metrics", "body_types"},
		{"needs_no_timestamp", "body_types"},
		{"hangs_up_on_garbage", "garbage_body"},
		{"takes_any_length", "garbage_length"},
		{"dies_on_eof", "hangup"},
		{"dies_on_epipe", "cancel"},
		{"prints_as_plugin", "plugin_start"},
		{"any_version", "version_skew"},
		{"hangs_on_other_version", "version_skew"},
	}
	for _, c := range signaltest.Checks() {
		if !slices.ContainsFunc(tests, func(test struct{ mistake, want string }) bool { return test.want == c.Name }) {
			t.Errorf("there is no broken signal for the check %s", c.Name)
		}
	}
	for _, test := range tests {
		t.Run(test.mistake, func(t *testing.T) {
			t.Parallel()
			target := signaltest.Target{Path: broken, Args: []string{test.mistake}, Env: []string{"TMPDIR=" + t.TempDir()}, Limits: patient()}
			own := short(time.Second)
			switch test.mistake {
			case "impatient":
				own = patient()
				own.Rest = 2 * impatience
			case "starts_slowly":
				own.Start = 1
			case "ignores_sigterm":
				target.Limits.Exit = own.Exit // other checks end it too
			case "counts", "two_writes": // the second answer has the mistake
				own = patient()
			}
			reports, err := signaltest.Test(t.Context(), target.With(test.want, own))
			if err != nil {
				t.Fatal(err)
			}
			var failed []string
			for r := range reports {
				t.Logf("%s %s in %v: %s", r.Name, r.Result, r.Duration, r.Problem)
				if r.Result == signaltest.Failed {
					failed = append(failed, r.Name)
				}
				if (r.Result == signaltest.Failed) != (r.Fix != "") || (r.Result == signaltest.Passed) != (r.Problem == "") {
					t.Errorf("report %+v: problem or fix is not that of its result", r)
				}
			}
			var want []string
			if test.want != "" {
				want = []string{test.want}
			}
			if diff := cmp.Diff(want, failed); diff != "" {
				t.Errorf("failed checks (-want +got):\n%s", diff)
			}
		})
	}
}

// The advice of a failed check fits the mistake.
func TestAdvice(t *testing.T) {
	broken := program(t, "broken")
	for _, test := range []struct{ mistake, check, problem, fix string }{
		{"name_ends_with_nul", "listens", "-app-socket@", "must not end with NUL"},
		{"listens_elsewhere", "listens", "-signaltest-app-socket", "in this order"},
		{"wrong_ack", "answers", "got byte 0x31", `b"\x01"`},
		{"little_endian", "answers", "", "highest byte first"},
		{"hello_wants_newline", "answers", "", "no end of line"},
		{"hello_counts_braces", "split_hello", "in a string", "outside of strings"},
		{"verdict_number", "verdict", "Verdict: ", `"no_opinion"`},
		{"explanation_list", "verdict", "Explanation: ", "is a string"},
		{"stale_with_value", "verdict", "beside Resources.cpus", "with no resource"},
		{"small_buffer", "huge_window", "refused", "8 MiB"},
		{"pid_file", "restart", "exit status 1\nits standard error:\n    is another one running?", "no lock file"},
	} {
		t.Run(test.mistake, func(t *testing.T) {
			t.Parallel()
			target := signaltest.Target{Path: broken, Args: []string{test.mistake}, Env: []string{"TMPDIR=" + t.TempDir()}, Limits: patient()}
			own := patient()
			switch test.mistake {
			case "hello_wants_newline", "hello_counts_braces":
				own = short(time.Second)
			case "name_ends_with_nul", "listens_elsewhere", "little_endian": // within the limit, they do something that the advice needs
				own = short(10 * time.Second)
			}
			reports, err := signaltest.Test(t.Context(), target.With(test.check, own))
			if err != nil {
				t.Fatal(err)
			}
			for r := range reports {
				if r.Name != test.check {
					continue
				}
				if r.Result != signaltest.Failed || !strings.Contains(r.Problem, test.problem) || !strings.Contains(r.Fix, test.fix) {
					t.Errorf("report %+v, want a failure with problem %q and advice %q", r, test.problem, test.fix)
				}
				if n := strings.Count(r.Problem, "its standard error"); n > 1 {
					t.Errorf("the last lines stand there %d times: %s", n, r.Problem)
				}
				return
			}
		})
	}
}

// A check that did not run names the failed check, also if it does not need that one directly.
func TestBefore(t *testing.T) {
	t.Parallel()
	target := signaltest.Target{Path: program(t, "broken"), Args: []string{"one_evaluation"}, Limits: signaltest.Limits{Rest: time.Millisecond}}
	reports, err := signaltest.Test(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	var waiting []string
	var answers signaltest.Answers
	for r := range reports {
		answers = answers.Merge(r.Answers)
		if r.Result == signaltest.NotRun {
			waiting = append(waiting, r.Name+" before "+r.Before)
		}
	}
	var want []string
	for _, name := range []string{"nothing_after", "silence", "repeats", "garbage_body", "body_types", "body_utf8"} {
		want = append(want, name+" before keeps_connection")
	}
	if diff := cmp.Diff(want, waiting); diff != "" {
		t.Errorf("not run (-want +got):\n%s", diff)
	}
	if answers.Values == 0 || answers.None != 0 {
		t.Errorf("answers %+v, want values only", answers)
	}
}

// A signal with a fixed app passes if its target declares that.
func TestFixedApp(t *testing.T) {
	t.Parallel()
	r := &recorder{T: t}
	signaltest.RunTarget(r, signaltest.Target{Path: program(t, "broken"), Args: []string{"app_without_suffix"}, FixedApp: true})
	if len(r.errs) != 0 {
		t.Errorf("errors %q, want none", r.errs)
	}
}

func TestInvalidTarget(t *testing.T) {
	for _, test := range []struct {
		name   string
		target signaltest.Target
		want   string
	}{
		{"no path", signaltest.Target{}, "path"},
		{"app too long", signaltest.Target{Path: "/bin/true", App: strings.Repeat("x", 90)}, "shorten it"},
		{"negative limit", signaltest.Target{Path: "/bin/true", Limits: signaltest.Limits{Exit: -1}}, "limit exit"},
		{"parameters", signaltest.Target{Path: "/bin/true", Hello: sigproto.Hello{Parameters: map[string]any{"f": func() {}}}}, "parameters"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := signaltest.Test(t.Context(), test.target); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Test(%+v) = %v, want an error with %q", test.target, err, test.want)
			}
		})
	}
}

// A missing program, or one that ends at once, fails the first check. The others do not run.
func TestNoSignal(t *testing.T) {
	for _, test := range []struct{ name, path, want string }{
		{"no file", "/nowhere/signal", "no such file"},
		{"it ends", "/bin/true", "ended before it listened; the signal ended: exit status 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			reports, err := signaltest.Test(t.Context(), signaltest.Target{Path: test.path})
			if err != nil {
				t.Fatal(err)
			}
			for r := range reports {
				if r.Name == "listens" && (r.Result != signaltest.Failed || !strings.Contains(r.Problem, test.want)) {
					t.Errorf("report %+v, want a failure with %q", r, test.want)
				}
				if r.Name != "listens" && r.Result != signaltest.NotRun {
					t.Errorf("report %+v, want not run", r)
				}
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	reports, err := signaltest.Test(ctx, signaltest.Target{Path: "/bin/sleep", Args: []string{"60"}})
	if err != nil {
		t.Fatal(err)
	}
	cancel(errors.New("enough"))
	for r := range reports {
		if r.Result != signaltest.NotRun || r.Problem != "enough" {
			t.Errorf("report %+v, want not run, because of enough", r)
		}
	}
}

// recorder is a test that records its errors.
type recorder struct {
	*testing.T
	errs []string
}

func (r *recorder) Errorf(format string, args ...any) { r.errs = append(r.errs, format) }

func TestRun(t *testing.T) {
	r := &recorder{T: t}
	signaltest.Run(r, "/nowhere/signal")
	if len(r.errs) != 1 {
		t.Errorf("Run of no program made the errors %q, want one", r.errs)
	}
}

func requestBody(values ...float64) sigproto.Evaluation {
	s := sigproto.Series{Name: "requests", Values: values}
	for i := range values {
		s.Times = append(s.Times, int64(1700000000+60*i))
	}
	return sigproto.Evaluation{Timestamp: 1700003600, Series: []sigproto.Series{s}}
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	broken := program(t, "broken")
	request := func(mistake string) (sigproto.Response, error) {
		return signaltest.Evaluate(t.Context(), signaltest.Target{Path: broken, Args: []string{mistake}}, requestBody(1, 2), sigproto.Hello{Cluster: "c", Pool: "p"})
	}
	got, err := request("none")
	if err != nil {
		t.Fatal(err)
	}
	want := sigproto.Resources{CPUs: new(4.0), Mem: new(2048.5)}
	if diff := cmp.Diff(want, got.Resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if _, err := request("negative"); err == nil || !strings.Contains(err.Error(), "Resources.cpus") {
		t.Errorf("Ask of a signal that wants -1 cpus = %v, want an error that names the field", err)
	}
	if _, err := request("nonsense"); err == nil || !strings.Contains(err.Error(), "the first argument is one of") {
		t.Errorf("Ask of a program that ends = %v, want an error with its last line", err)
	}
}

// The standard error of a program that ends at once is in the error: with the reason of a panic, which is the beginning,
// and that of a traceback, which is the end. It is also there if the program ends after it has accepted a connection.
func TestStandardErrorIsNotLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script string
		want   []string
	}{
		"one line":    {"echo no such table >&2; exit 3", []string{"exit status 3", "no such table"}},
		"closed pipe": {"echo no such table >&2; exec 2>&-; exit 3", []string{"exit status 3", "no such table"}},
		"long": {"echo panic: first >&2; i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done >&2; echo last >&2; exit 2",
			[]string{"exit status 2", "panic: first", "...", "last"}},
		"after a connection": {"exec python3 -c '\nimport socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(\"\\0\" + \"-\".join(sys.argv[1:]) + \"-socket\")\ns.listen()\ns.accept()\ns.accept()\nraise ValueError(\"no such table\")' \"$@\"",
			[]string{"exit status 1", "ValueError: no such table"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "signal")
			if err := testprograms.Write(path, "#!/bin/sh\n"+test.script+"\n"); err != nil {
				t.Fatal(err)
			}
			target := signaltest.Target{Path: path, Env: []string{"PATH=" + pathWithPython(t)}, Limits: patient()}
			_, err := signaltest.Evaluate(t.Context(), target, requestBody(1, 2), sigproto.Hello{})
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Evaluate = %v, want an error with %q", err, want)
				}
			}
		})
	}
}

func pathWithPython(t *testing.T) string {
	t.Helper()
	python, err := testprograms.Python3(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return os.Getenv("PATH") + ":" + filepath.Dir(python)
}

// A plugin declares its parameters. Other programs do not.
func TestParameters(t *testing.T) {
	t.Parallel()
	plugin, err := testprograms.Own(t.Context(), t.TempDir(), "examples/signals/instance_count")
	if err != nil {
		t.Fatal(err)
	}
	names, declared, err := signaltest.Parameters(t.Context(), signaltest.Target{Path: plugin})
	if err != nil || !declared || !slices.Contains(names, "headroom") {
		t.Errorf("Parameters of a plugin = %q, %v, %v, want headroom among them", names, declared, err)
	}
	for _, plain := range []string{"none", "prints_as_plugin"} {
		names, declared, err = signaltest.Parameters(t.Context(), signaltest.Target{Path: program(t, "broken"), Args: []string{plain}})
		if err != nil || declared || len(names) > 0 {
			t.Errorf("Parameters of %s = %q, %v, %v, want none declared", plain, names, declared, err)
		}
	}
}

func TestBench(t *testing.T) {
	t.Parallel()
	target := signaltest.Target{Path: program(t, "broken"), Args: []string{"none"}}
	w := signaltest.Workload{Series: 10, Points: 100, Evaluations: 5}
	f, err := signaltest.Bench(t.Context(), target, w)
	if err != nil {
		t.Fatal(err)
	}
	if f.Workload != w || f.Bytes < 10*100*15 || f.P50 <= 0 || f.P50 > f.P99 || f.BareP50 <= 0 || f.BareP50 > f.BareP99 || f.Ratio() <= 0 {
		t.Errorf("Bench = %+v, ratio %v, want figures that fit together", f, f.Ratio())
	}
	if _, err := signaltest.Bench(t.Context(), target, signaltest.Workload{Series: 1}); err == nil {
		t.Error("Bench of a workload without points succeeded")
	}
}

// A process that the signal started ends with the test, even if it holds the outputs.
func TestNoProcessIsLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	script := filepath.Join(dir, "signal")
	text := "#!/bin/sh\nsleep 600 &\necho $! >> " + pids + "\n" + program(t, "broken") + " none \"$@\"\n"
	if err := testprograms.Write(script, text); err != nil {
		t.Fatal(err)
	}
	if _, err := signaltest.Evaluate(t.Context(), signaltest.Target{Path: script}, requestBody(1), sigproto.Hello{}); err != nil {
		t.Fatal(err)
	}
	started, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.FieldsSeq(string(started)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		awaitEnd(t, pid)
	}
}

// awaitEnd waits until no process has that number, or only a zombie does.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	await.True(t, fmt.Sprintf("the end of process %d", pid), func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil && syscall.Kill(pid, 0) == syscall.ESRCH || strings.Contains(string(stat), ") Z ")
	})
}

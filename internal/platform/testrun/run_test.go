package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// printed is what a test binary prints with -test.v=test2json: two parallel tests, and one with a subtest that fails.
const printed = "-test.shuffle 17\n" +
	"\x16=== RUN   TestA\n\x16=== PAUSE TestA\n\x16=== RUN   TestB\n\x16=== PAUSE TestB\n" +
	"\x16=== CONT  TestA\n    a_test.go:3: waited 1.5s for a turn\n" +
	"\x16=== CONT  TestB\n    b_test.go:3: of B\nno end of line\x16=== NAME  TestA\n    a_test.go:4: of A\n" +
	"\x16--- PASS: TestA (2.00s)\n\x16=== RUN   TestB/inner\n    b_test.go:5: wrong\n\x16--- FAIL: TestB/inner (0.01s)\n\x16=== NAME  TestB\n\x16--- FAIL: TestB (0.25s)\nFAIL\n"

func TestOutputOfTests(t *testing.T) {
	o := &output{text: map[string]*bytes.Buffer{}}
	for part := range strings.SplitAfterSeq(printed, "e") { // writes end anywhere
		if _, err := o.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	want := []timed{{name: "TestA", took: 500 * time.Millisecond}, {name: "TestB", took: 250 * time.Millisecond}}
	if diff := cmp.Diff(want, o.passed, cmp.AllowUnexported(timed{})); diff != "" {
		t.Errorf("tests (-want +got):\n%s", diff)
	}
	const failures = "-test.shuffle 17\n--- FAIL: TestB\n    b_test.go:3: of B\nno end of line\nFAIL\n--- FAIL: TestB/inner\n    b_test.go:5: wrong\n"
	if diff := cmp.Diff(failures, o.failures()); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestBinaryThatEndsWithoutVerdict(t *testing.T) {
	o := &output{text: map[string]*bytes.Buffer{}}
	_, _ = o.Write([]byte("\x16=== RUN   TestA\n\x16--- PASS: TestA (0.00s)\n\x16=== RUN   TestB\npanic: no verdict\n"))
	if got := o.failures(); got != "--- FAIL: TestB\npanic: no verdict\n" {
		t.Errorf("failures: %q", got)
	}
}

// A package fails with the exit code of its test binary, and its output is in a file.
func TestRunOfABinary(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "x.test")
	text := "#!/bin/sh\nprintf '\\026=== RUN   TestX\\n    wrong in '; pwd\nprintf '\\026--- FAIL: TestX (1.00s)\\n'\nexit 1\n"
	if err := testprograms.Write(binary, text); err != nil {
		t.Fatal(err)
	}
	var printing sync.Mutex
	r := run(context.Background(), job{pkg: &pkg{path: "a/x", dir: dir, binary: binary}}, &printing)
	if r.err == nil || len(r.tests) != 1 || r.tests[0].name != "TestX" {
		t.Errorf("run = %+v, want a failed TestX", r)
	}
	if log, err := os.ReadFile(filepath.Join(dir, "x.log")); err != nil || !strings.Contains(string(log), "wrong in "+dir) {
		t.Errorf("log %q, %v", log, err)
	}
}

func TestPurePackagesHaveNoRaceDetector(t *testing.T) {
	t.Chdir(filepath.Join("..", "..", ".."))
	serial, err := withoutGoroutines()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"harmonizer/apps": true, "autoscaler/decide": true, "internal/arch": true, "autoscaler": false, "cmd/weir": false} {
		if serial[module+path] != want {
			t.Errorf("%s has no goroutine: %v, want %v", path, !want, want)
		}
	}
}

// Each test of a package with parts runs in one process. Without -full, one part has no race detector and few cases.
func TestParts(t *testing.T) {
	t.Setenv(testprograms.FolderVariable, "/programs")
	for _, full := range []bool{false, true} {
		var got []string
		for _, j := range jobs([]*pkg{{path: module + "api", binary: "api.test"}, {path: module + "cmd/weir", binary: "raced.test"}}, "", full, []string{"-x"}) {
			got = append(got, fmt.Sprintf("%s %s %s %v", strings.TrimPrefix(j.path, module), j.part, j.binary, j.env))
			if j.part == "others" && j.settings[1] != "-test.skip="+parts["cmd/weir"][0].tests+"|"+parts["cmd/weir"][1].tests {
				t.Errorf("the others are %q", j.settings)
			}
		}
		want := []string{"cmd/weir plain /programs/weir.test [WEIR_TEST_FEWER=1]", "cmd/weir slow raced.test []", "api  api.test []", "cmd/weir others raced.test []"}
		if full {
			want[0] = "cmd/weir plain raced.test []"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("full %v (-want +got):\n%s", full, diff)
		}
	}
}

// Testrun runs the tests of this module, as "make test" calls it. First it makes all that the tests need: the programs of
// package testprograms, and every test binary. Then it runs the test binaries side by side, so that no compiler takes the
// processors from a test. At the end it prints the ten slowest tests.
//
//	testrun [-run REGEXP] [-full] [PACKAGE...]
//
// The race detector is in the tests of all packages except the pure ones, which start no goroutine: internal/arch proves
// that. A few tests of whole installations run without it, if not with -full. Testrun runs in the root of the module. If it is killed, the kernel ends the tests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// folder has everything that testrun makes, for the next run: the linker skips a current test binary.
const folder = "bin/tests"

// lanes is the number of test binaries that run side by side. Most of them wait more than they compute, and those of
// cmd/weir wait most.
func lanes() int { return 2*runtime.NumCPU() + 1 }

func main() {
	// A killed make takes testrun with it, and testrun its tests.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := test(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}

func test(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("testrun", flag.ContinueOnError)
	only := flags.String("run", "", "run only tests with such a name")
	also := flags.String("also", "", "run the tests of the modules in these folders too, separated by commas")
	full := flags.Bool("full", false, "run all tests of packages that are not pure with the race detector")
	timeout := flags.Duration("timeout", time.Hour, "end the tests of a package that take longer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	began := time.Now()
	all, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	if err := os.Setenv(testprograms.FolderVariable, filepath.Join(all, "programs")); err != nil {
		return err
	}
	found, err := list(ctx, ".", flags.Args())
	if err != nil {
		return err
	}
	for _, folder := range strings.FieldsFunc(*also, func(r rune) bool { return r == ',' }) {
		more, err := list(ctx, folder, []string{"./..."})
		if err != nil {
			return err
		}
		found = append(found, more...)
	}
	if err := build(ctx, all, found); err != nil {
		return err
	}
	built := time.Now()
	settings := []string{"-test.v=test2json", "-test.paniconexit0", "-test.shuffle=on", "-test.timeout=" + timeout.String()}
	results := runAll(ctx, jobs(found, *only, *full, settings))
	failed := report(os.Stdout, results)
	fmt.Printf("%d packages in %v: %v for building, %v for the tests; the output of each is in %s\n", len(found), since(began), built.Sub(began).Round(time.Second), since(built), folder)
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d packages failed: %q", len(failed), len(found), failed)
	}
	return ctx.Err()
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }

// report prints the ten slowest tests, and returns the packages that failed.
func report(out *os.File, results []result) (failed []string) {
	var tests []timed
	for _, r := range results {
		if r.err != nil && !slices.Contains(failed, r.pkg) {
			failed = append(failed, r.pkg)
		}
		tests = append(tests, r.tests...)
	}
	slices.SortFunc(tests, func(a, b timed) int { return int(b.took - a.took) })
	fmt.Fprintln(out, "the slowest tests, without their waits for a turn:")
	for _, t := range tests[:min(10, len(tests))] {
		fmt.Fprintf(out, "%8.1f s  %s %s\n", t.took.Seconds(), t.pkg, t.name)
	}
	return failed
}

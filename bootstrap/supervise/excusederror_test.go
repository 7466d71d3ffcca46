package supervise

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestPrepareErrorSpendsNoBudget(t *testing.T) {
	var starts int
	mark := newMark(t)
	p := supervise(t, ProcessConfig{Policy: quick(1), NewSpec: func(context.Context) (Spec, error) {
		if starts++; starts <= 20 {
			return Spec{}, errors.New("bucket is away")
		}
		return shell("exec sleep 1000", mark, &listing{}), nil
	}})
	for range 20 {
		if s := p.await(t, Backoff); !s.Excused || s.Why != "prepare start: bucket is away" {
			t.Fatalf("status %+v, want it excused", s)
		}
	}
	if s := p.await(t, Running); s.Excused || s.Restarts != 20 {
		t.Errorf("status %+v, want it to run at the 21st attempt", s)
	}
}

func TestChildFailuresSpendBudgetDespiteExcusedEnds(t *testing.T) {
	var starts int
	mark := newMark(t)
	p := supervise(t, ProcessConfig{Policy: quick(2), NewSpec: func(context.Context) (Spec, error) {
		if starts++; starts%2 == 0 {
			return Spec{}, errors.New("bucket is away")
		}
		return shell("exit 1", mark, &listing{}), nil
	}})
	if s := p.await(t, Fatal); s.Excused || starts != 5 {
		t.Errorf("status %+v after %d starts, want it fatal after the third failure, of 5 starts", s, starts)
	}
}

func TestExpectedEndIsNoFailure(t *testing.T) {
	mark := newMark(t)
	p := supervise(t, ProcessConfig{
		Policy: quick(0), NewSpec: always(shell("exit 75", mark, &listing{})),
		Expected: func(e Exit) bool { return e.Code == 75 },
	})
	for range 10 {
		if s := p.await(t, Backoff); !s.Excused || s.Why != "exit status 75" {
			t.Fatalf("status %+v, want the end excused", s)
		}
		p.await(t, Starting)
	}
}

func TestUnexpectedEndIsFailure(t *testing.T) {
	for _, command := range []string{"exit 1", "kill -9 $$"} {
		mark := newMark(t)
		p := supervise(t, ProcessConfig{
			Policy: quick(1), NewSpec: always(shell(command, mark, &listing{})),
			Expected: func(e Exit) bool { return e.Code == 75 },
		})
		if s := p.await(t, Fatal); s.Restarts != 1 {
			t.Errorf("%s: status %+v, want it fatal after a restart", command, s)
		}
	}
}

func TestIsScarcity(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EMFILE: true, syscall.EAGAIN: true, syscall.ENOENT: false, syscall.ENOEXEC: false, syscall.EACCES: false,
	} {
		if got := isScarcity(fmt.Errorf("start: %w", err)); got != want {
			t.Errorf("isScarcity(%v) = %v, want %v", err, got, want)
		}
	}
}

// A child gets one value of each variable: the last one of its spec.
func TestEnvironmentHasEachVariableOnce(t *testing.T) {
	lines := &listing{}
	spec := shell("tr '\\0' '\\n' < /proc/self/environ", newMark(t), lines)
	spec.Env = append(spec.Env, "CMAN_POOL=stale", "odd", "CMAN_ARGS=", "CMAN_POOL=fresh", "CMAN_ARGS=--dry-run", "odd=1")
	awaitEnd(t, start(t, newLauncher(t), spec))
	var got []string
	for _, line := range lines.all() {
		if strings.HasPrefix(line, "CMAN_") || strings.HasPrefix(line, "odd") {
			got = append(got, line)
		}
	}
	if want := "odd CMAN_POOL=fresh CMAN_ARGS=--dry-run odd=1"; strings.Join(got, " ") != want {
		t.Errorf("environment %q, want %q", got, want)
	}
}

package await

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) {
	r.text = fmt.Sprint(args...)
	panic(r)
}

// second is what a check takes here, in virtual time, so that a wait has few checks.
func second() { <-time.After(time.Second) }

// failed runs a wait and returns the text of its failure; empty: it ends well.
func failed(t *testing.T, wait func(testing.TB)) (text string) {
	r := &recorder{TB: t}
	defer func() {
		if recovered := recover(); recovered != nil && recovered != any(r) {
			panic(recovered)
		}
		text = r.text
	}()
	wait(r)
	return ""
}

func TestNilLastsWhileTheStateChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		after := func() time.Duration { return time.Since(began) }
		text := failed(t, func(tb testing.TB) {
			Nil(tb, "four", func() error {
				second()
				if n := int(after() / (Patience - time.Second)); n < 4 {
					return fmt.Errorf("%d of 4", n)
				}
				return nil
			})
		})
		if text != "" || after() < 3*Patience {
			t.Errorf("after %v the wait fails with %q, want a wait for four steps", after(), text)
		}
	})
}

func TestNilEndsWithoutProgress(t *testing.T) {
	for name, c := range map[string]struct {
		state func(after time.Duration) string
		want  time.Duration
	}{
		"same state":          {func(time.Duration) string { return "2 of 4" }, Patience},
		"only times change":   {func(d time.Duration) string { return fmt.Sprintf("no tick since 12:%02d:00, for %v", d/time.Minute, d) }, Patience},
		"changes without end": {func(d time.Duration) string { return fmt.Sprint("attempt ", int(d.Seconds())) }, rounds * Patience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				text := failed(t, func(tb testing.TB) {
					Nil(tb, "four", func() error {
						second()
						return errors.New(c.state(time.Since(began)))
					})
				})
				if after := time.Since(began); after < c.want || after > c.want+5*time.Second {
					t.Errorf("the wait ends after %v, want %v", after, c.want)
				}
				for _, want := range []string{"four did not come", "nothing moved since ", "load ", c.state(time.Since(began))[:4]} {
					if !strings.Contains(text, want) {
						t.Errorf("the failure %q has no %q", text, want)
					}
				}
			})
		})
	}
}

func TestPauseGrows(t *testing.T) {
	for _, c := range []struct{ took, lasted, want time.Duration }{
		{0, 0, 5 * time.Millisecond},
		{time.Millisecond, time.Second, 50 * time.Millisecond},
		{time.Millisecond, time.Minute, 500 * time.Millisecond},
		{time.Second, time.Minute, 3 * time.Second},
	} {
		if got := pauseAfter(c.took, c.lasted); got != c.want {
			t.Errorf("pauseAfter(%v, %v) = %v, want %v", c.took, c.lasted, got, c.want)
		}
	}
}

func TestValueNamesWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := failed(t, func(tb testing.TB) { Value(tb, "the answer", make(chan int)) })
		if !strings.HasPrefix(text, "the answer did not come within 3m0s") {
			t.Errorf("the failure is %q", text)
		}
	})
	full := make(chan int, 1)
	full <- 7
	if got := Value(t, "a number", full); got != 7 {
		t.Errorf("Value = %d, want 7", got)
	}
	True(t, "nothing", func() bool { return true })
}

func TestTimesAreNoProgress(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"12:01:02 tick", "12:01:03.5 tick", true},
		{"silent for 3m2s", "silent for 3m3.25s", true},
		{"silent for 9 s", "silent for 10 s", true},
		{"2026-11-27T23:01:02Z", "2026-11-27T23:01:03Z", true},
		{"joined 2", "joined 3", false},
		{"2 of 4 instances", "3 of 4 instances", false},
		{"epoch 7", "epoch 8", false},
	} {
		if got := still(c.a) == still(c.b); got != c.same {
			t.Errorf("%q and %q are the same state: %v, want %v", c.a, c.b, got, c.same)
		}
	}
}

func TestHalt(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if Halted(pid) {
		t.Error("it is halted at first")
	}
	if err := Halt(pid); err != nil || !Halted(pid) {
		t.Errorf("Halt = %v, halted %v", err, Halted(pid))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended without a signal")
	}
	if Halted(pid) {
		t.Error("a process that has ended is halted")
	}
}

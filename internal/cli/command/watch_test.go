package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// TestWatch prints an output only if more than its ages changed, continues after an error, and ends with its context.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		r := &Root{Stdout: terminal.New(&out)}
		ctx, cancel := context.WithCancel(t.Context())
		frames := []string{"node a  5s\n", "node a    1m07s\n", "node b\x1b[2J  1h02m\n", "error", "node b  2d\n", "end"}
		err := r.Watch(ctx, func(context.Context) error {
			frame := frames[0]
			frames = frames[1:]
			switch frame {
			case "end":
				cancel()
				return ctx.Err()
			case "error":
				return errors.New("no response")
			}
			fmt.Fprint(r.Stdout, frame)
			return nil
		})
		want := "node a  5s\n" + "node b\\x1b[2J  1h02m\n" + "! no response\n" + "node b  2d\n"
		if err != nil || out.String() != want || len(frames) != 0 {
			t.Errorf("Watch = %v and prints\n%q\nwant\n%q", err, out.String(), want)
		}
	})
}

// TestWatchEndsAtAMistake returns the error of the first call, and that of a wrong name at any time.
func TestWatchEndsAtAMistake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for calls, problem := range map[int]error{1: errors.New("no bus"), 2: usage.New(errors.New("no such pool"))} {
			r, n := &Root{Stdout: new(strings.Builder)}, 0
			err := r.Watch(t.Context(), func(context.Context) error {
				if n++; n == calls {
					return problem
				}
				return nil
			})
			if !errors.Is(err, problem) || n != calls {
				t.Errorf("Watch = %v after %d calls, want %v after %d", err, n, problem, calls)
			}
		}
	})
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		rows int
		want string
	}{
		{0, "1\n2\n3\n4\n5\n"},
		{6, "1\n2\n3\n4\n5\n"},
		{5, "1\n2\n3\n... 2 more lines; --watch without a terminal prints all\n"},
	} {
		if got := fit("1\n2\n3\n4\n5\n", c.rows); got != c.want {
			t.Errorf("fit to %d rows = %q, want %q", c.rows, got, c.want)
		}
	}
}

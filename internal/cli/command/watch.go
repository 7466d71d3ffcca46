package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/platform/terminal"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// watchEvery is the period of Watch.
const watchEvery = 2 * time.Second

// Watch calls show every two seconds until ctx ends, and prints its output. On a terminal each output replaces the one
// before. Elsewhere an output is printed if more than its ages changed. A failed first call ends Watch; a later failure
// is part of the output. show prints to r.Stdout, which Watch replaces meanwhile; no other goroutine may use it.
func (r *Root) Watch(ctx context.Context, show func(context.Context) error) error {
	out := r.Stdout
	defer func() { r.Stdout = out }()
	again := time.NewTicker(watchEvery)
	defer again.Stop()
	last := ""
	for first := true; ; first = false {
		text := new(bytes.Buffer)
		r.Stdout = terminal.Frame(out, text)
		err := show(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if _, wrong := errors.AsType[*usage.Error](err); err != nil && (first || wrong) {
			_, _ = terminal.Below(out).Write(text.Bytes())
			return err
		}
		if err != nil {
			fmt.Fprintf(r.Stdout, "! %v\n", err)
		}
		if err := draw(out, text.String(), &last); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// WatchFlag gives a command --watch. Call it before OutputFlag or NamesFlag.
func (r *Root) WatchFlag(cmd *cobra.Command) {
	watch := cmd.Flags().BoolP("watch", "w", false, "repeat every 2s until Ctrl-C; without a terminal, print only changes")
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*watch {
			return inner(cmd, args)
		}
		return r.Watch(cmd.Context(), func(context.Context) error { return inner(cmd, args) })
	}
}

// draw prints an output of Watch after the last one, if it differs.
func draw(out io.Writer, text string, last *string) error {
	screen := terminal.Of(out)
	if screen == nil {
		now := withoutAges(text)
		if now == *last {
			return nil
		}
		*last = now
		_, err := io.WriteString(terminal.Below(out), text)
		return err
	}
	const home, clearLine, clearBelow = "\x1b[H", "\x1b[K\n", "\x1b[J"
	start := home
	if *last == "" {
		start = "\x1b[2J" + home
	}
	*last = text + " "
	_, err := io.WriteString(terminal.Below(out), start+strings.ReplaceAll(fit(text, rows(screen)), "\n", clearLine)+clearBelow)
	return err
}

// fit returns the first lines of a text that a terminal of so many rows shows; 0 is a terminal of unknown size.
func fit(text string, rows int) string {
	lines := strings.SplitAfter(text, "\n")
	if rows < 3 || len(lines) <= rows {
		return text
	}
	shown := rows - 2 // the note and the cursor have a row each
	return strings.Join(lines[:shown], "") + fmt.Sprintf("... %d more lines; --watch without a terminal prints all\n", len(lines)-1-shown)
}

func rows(screen *os.File) int {
	size, err := unix.IoctlGetWinsize(int(screen.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Row)
}

// withoutAges returns a text without durations such as 5s, 1m5s, 2h7m and 3d, and without repeated spaces: these
// change while nothing happens.
func withoutAges(text string) string {
	text = regexp.MustCompile(`\b(\d+(\.\d+)?(ms|s|m|h|d))+\b`).ReplaceAllString(text, "AGE")
	return regexp.MustCompile(` +`).ReplaceAllString(text, " ")
}

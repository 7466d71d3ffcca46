package localworld

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// tickLines prints a line for each tick that differs from the one before. The ticks between are counted in the live
// line.
type tickLines struct {
	out  io.Writer
	live func(text string)

	last string // the printed text, without its time
	same int    // ticks since then
}

// tick takes the line of one tick: its time, a space, and its text.
func (t *tickLines) tick(line string) {
	at, text, _ := strings.Cut(line, " ")
	if text != t.last {
		t.last, t.same = text, 0
		fmt.Fprintln(t.out, line)
		return
	}
	t.same++
	ticks := "ticks"
	if t.same == 1 {
		ticks = "tick"
	}
	t.live(fmt.Sprintf("%s %d %s without a change", at, t.same, ticks))
}

// repeat makes the next tick a line of its own.
func (t *tickLines) repeat() { t.last = "" }

// export returns the command that another terminal needs first, to find a data folder that is not the default one; empty: none.
func (u *up) export() string {
	if u.Data == "" {
		return ""
	}
	return "export WEIR_DATA='" + strings.ReplaceAll(u.data, "'", `'\''`) + "'; "
}

// watch returns the part that prints the ticks. It subscribes at once, so that the first tick is printed.
func (u *up) watch(ctx context.Context) (func(context.Context) error, error) {
	ledger, err := state.OpenLedger(ctx, u.bus.JetStream(), u.Cluster, u.Pool)
	if err != nil {
		return nil, err
	}
	counts := message.CountsSubject(u.Cluster, u.Pool)
	in, err := bus.Receive(u.bus.Conn(), bus.InboxConfig{
		Events: []string{counts, state.LedgerSubject(u.Cluster, u.Pool)}, Messages: 64, Log: u.log,
	})
	if err != nil {
		return nil, fmt.Errorf("watch the ticks: %w", err)
	}
	context.AfterFunc(ctx, in.Close)
	return func(ctx context.Context) error {
		var now api.InstanceCounts
		var parts message.Gather
		ready := false
		silence := time.NewTicker(upStartTimeout)
		defer silence.Stop()
		last := u.began
		lines := tickLines{out: u.Stdout, live: u.live}
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-silence.C:
				lines.repeat()
				fmt.Fprintf(u.Stdout, "! no tick for %v; see weir status and %s\n", time.Since(last).Round(time.Second), u.logFile.path)
			case m, ok := <-in.Messages():
				if !ok {
					return nil
				}
				if m.Subject == counts {
					if part, err := message.DecodeCounts(m.Data); err == nil {
						if whole, ok := parts.Add(part); ok {
							now = whole
						}
					}
					continue
				}
				data, err := ledger.Published(ctx, m)
				if err != nil {
					u.log.Warn("unreadable ledger record", "err", err)
					continue
				}
				r, err := history.ReadRecord(data)
				if err != nil {
					u.log.Warn("unreadable ledger record", "err", err)
					continue
				}
				last = time.Now()
				silence.Reset(liveness.OverdueAfter(max(r.Every, r.Took)))
				if !ready && r.Failed == "" {
					ready = true
					fmt.Fprintf(u.Stdout, "ready in %.1fs; in another terminal: %sweir status, weir explain, weir app set --help; log in %s\n",
						time.Since(u.began).Seconds(), u.export(), u.logFile.path)
				}
				lines.tick(explain.Line(r, now))
			}
		}
	}, nil
}

package signal

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/signals/forecast"
)

// requests returns 28 days before now of a load that is five times as high by day as by night.
func requests(now time.Time) (w forecast.Window) {
	for at := now.Add(-28 * 24 * time.Hour); at.Before(now); at = at.Add(forecast.Step) {
		hour := float64(at.Hour()) + float64(at.Minute())/60
		w.Times = append(w.Times, at.Unix())
		w.Values = append(w.Values, 200+800*min(max(hour-8, 0), 1, max(19-hour, 0))+float64(at.Minute()*7%11))
	}
	return w
}

func TestTrialPrintsFleetsAndPlot(t *testing.T) {
	now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	rule := forecast.Rule{Launch: 15 * time.Minute, Zone: time.UTC, WaitingCosts: 20, Headroom: 1 / 0.9}
	var out bytes.Buffer
	cli := &commands{&connect.CLI{Root: &command.Root{Stdout: &out, Form: command.FormTable, Output: command.FormTable}}}
	if err := cli.printTrial(rule, "web,requests", requests(now), now); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"metric   web,requests, 8064 points before 2026-11-17 12:00:00 UTC\n",
		"rule     launch 15m, setpoint 0.9, waiting costs 20, time zone UTC\n",
		"answer   capacity 11", "won 7 of 7 days",
		"7 of the 7 days before 2026-11-17 12:00 UTC, younger days weigh more:\n",
		"\nheadroom  1.11", "\nmargin    1.11", "\nweekdays  1.11", "by the clock of UTC: load (#), capacity (-)",
		"12:00" + strings.Repeat(" ", 62) + "12:00\n",
	} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the output lacks %q:\n%s", part, out.String())
		}
	}
}

// TestPlotShowsWaiting: a column of four slots shows waiting load if one of them has it, and else none.
func TestPlotShowsWaiting(t *testing.T) {
	at := time.Date(2026, 11, 17, 0, 0, 0, 0, time.UTC)
	var slots []forecast.Slot
	for i := range 288 {
		s := forecast.Slot{At: at.Add(time.Duration(i) * forecast.Step), Load: 50, Capacity: 80}
		switch {
		case i < 4: // rises, and capacity rises before it
			s.Load, s.Capacity = float64(10+20*i), float64(30+20*i)
		case i == 6:
			s.Load = 100
		case i >= 8 && i < 12:
			s.Load = math.NaN()
		}
		slots = append(slots, s)
	}
	lines := strings.Split(plotDay(slots, time.UTC), "\n")
	if got, want := lines[0], "      100 | !"; got != want {
		t.Errorf("first line %q, want %q:\n%s", got, want, strings.Join(lines, "\n"))
	}
	if n := strings.Count(strings.Join(lines, ""), "!"); n != 2 {
		t.Errorf("%d signs of waiting load, want 2 of one column:\n%s", n, strings.Join(lines, "\n"))
	}
	if got := plotDay(nil, time.UTC); strings.Contains(got, ":") {
		t.Errorf("plot of no slot = %q, want no times", got)
	}
	if got := plotDay(slots[:1], time.UTC); !strings.Contains(got, "00:00") {
		t.Errorf("plot of one slot = %q, want its time", got)
	}
}

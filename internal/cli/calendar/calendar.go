// Package calendar has the command "weir calendar", which checks a calendar of periods and lists the coming ones.
//
// The command reads a file and needs no cluster. The rules are in signals/calendar; this package adds the lines of a file
// to their problems, and prints. [Command] returns the command. One goroutine uses it.
package calendar

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirkeeper/weirkeeper/internal/cli/command"
	"github.com/weirkeeper/weirkeeper/internal/cli/connect"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
)

// commands are the commands of this package.
type commands struct{ *connect.CLI }

// mostDays bounds --days.
const mostDays = 400

// Command returns "weir calendar".
func Command(c *connect.CLI) *cobra.Command {
	cli := &commands{c}
	var days int
	var from string
	cmd := &cobra.Command{
		Use:   "calendar FILE",
		Short: "Check a calendar of periods, and list the coming ones",
		Long: `Check a calendar of periods, and list the coming ones, each with the time of its own zone
and UTC. FILE is the file of a pool, with calendars as signals or below "raise" of an
application, or the parameters of one calendar in YAML; "-" is standard input, for a
calendar. In its periods, a calendar raises the request of an application.

  time_zone: Europe/Berlin
  dates: {holidays: [2026-12-24..2026-12-26, 2027-01-01, "every 05-01"]}
  periods:
    - {name: office hours, days: mon-fri, from: "08:00", to: "18:00", lead: 10m,
       at_least: {cpus: 40}, except: [holidays]}
    - {name: payday, days: last working day, from: "06:00", to: "12:00", times: 1.5}
    - {name: sale, on: [2026-11-27], from: "00:00", for: 26h, plus: {cpus: 20}}
    - {name: batch, cron: "0 2 * * *", for: 90m, at_least: {mem: 65536}}
    - {name: board, rrule: "FREQ=MONTHLY;BYDAY=1TU", from: "09:00", to: "10:00",
       at_least: {cpus: 8}}

Where a clock changes, a period has the longer interval: a begin or end that the clock
skips is the end of the gap; of one that the clock shows twice the first begin and the
second end count. A lead and "for" are elapsed time. An exception names the date on which
a period begins. Where periods overlap, the highest at_least and the highest times count,
and all of plus; a period counts once.`,
		Example: `  weir calendar pool.yaml
  weir calendar calendar.yaml --days 60 --output json
  weir calendar calendar.yaml --from 2027-03-26 --days 4`,
		Args: command.OneArg("file"),
		RunE: func(_ *cobra.Command, args []string) error {
			begin, err := beginOf(from, time.Now())
			switch {
			case err != nil:
				return usage.New(err)
			case days < 1 || days > mostDays:
				return usage.New(fmt.Errorf("--days %d: want 1 to %d", days, mostDays))
			}
			all, err := cli.read(args[0])
			if err != nil {
				return err
			}
			return cli.print(all, begin, begin.Add(time.Duration(days)*24*time.Hour))
		},
	}
	cmd.Flags().IntVar(&days, "days", 14, "number of days that are listed")
	cmd.Flags().StringVar(&from, "from", "", "first date in UTC, such as 2027-03-26 (default: now)")
	cli.OutputFlag(cmd)
	return cmd
}

func beginOf(from string, now time.Time) (time.Time, error) {
	if from == "" {
		return now, nil
	}
	at, err := time.Parse(time.DateOnly, from)
	if err != nil {
		return at, fmt.Errorf("--from %q: want a date such as 2027-03-26", from)
	}
	return at, nil
}

// raise is an addition to a request, as the file has it.
type raise struct {
	AtLeast resource.Request `json:"at_least,omitzero"`
	Times   float64          `json:"times,omitempty"`
	Plus    resource.Request `json:"plus,omitzero"`
}

// coming is one period on one of its days.
type coming struct {
	App      string    `json:"app,omitempty"` // of a pool's file; of an advisor "APP~NAME"
	Period   string    `json:"period"`
	TimeZone string    `json:"time_zone"`
	Start    time.Time `json:"start"` // begin minus lead
	Begin    time.Time `json:"begin"` // with the offset of the zone
	End      time.Time `json:"end"`
	Raise    raise     `json:"raise"`
	// Periods that are active at its start too, and the level with them.
	With  []string `json:"with,omitempty"`
	Level raise    `json:"level"`
	// Changes of its clock, "2027-03-28 02:00 to 03:00".
	ClockChanges []string `json:"clock_changes,omitempty"`

	level calendar.Raise
	of    calendar.Occurrence
}

// print prints the coming periods of the calendars, which are by app; the app of a lone calendar is empty.
func (cli *commands) print(all map[string]calendar.Calendar, from, to time.Time) error {
	list := []coming{}
	for _, app := range slices.Sorted(maps.Keys(all)) {
		for _, o := range all[app].Coming(from, to) {
			list = append(list, comingOf(app, all[app], o))
		}
	}
	slices.SortStableFunc(list, func(a, b coming) int { return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End)) })
	if cli.Output == "json" {
		return cli.PrintJSON(list)
	}
	head := []string{"period", "begins", "ends", "zone", "utc", "raises", "notes"}
	_, alone := all[""]
	if !alone {
		head = append([]string{"app"}, head...)
	}
	var rows [][]string
	for _, n := range list {
		row := []string{n.Period, local(n.Begin), local(n.End), n.TimeZone, inUTC(n.Begin, n.End), n.of.Raise.String(), n.notes(from)}
		if !alone {
			row = append([]string{n.App}, row...)
		}
		rows = append(rows, row)
	}
	cli.PrintTable(head, rows)
	return nil
}

func comingOf(app string, c calendar.Calendar, o calendar.Occurrence) coming {
	level := c.At(o.Start())
	n := coming{
		App: app, Period: o.Period, TimeZone: o.Begin.Location().String(), Start: o.Start(), Begin: o.Begin, End: o.End,
		Raise: raise(o.Raise), Level: raise(level.Raise), ClockChanges: changes(o), level: level.Raise, of: o,
	}
	for _, other := range level.Of {
		if other.Period != o.Period {
			n.With = append(n.With, other.Period)
		}
	}
	return n
}

// notes returns the lead, the state, the overlaps and the changes of the clock of a period.
func (n coming) notes(now time.Time) string {
	var notes []string
	if n.of.Lead > 0 {
		notes = append(notes, fmt.Sprintf("lead %s: from %s", seconds.Short(n.of.Lead), n.Start.Format("Mon 15:04")))
	}
	if !n.Start.After(now) {
		notes = append(notes, "active")
	}
	if len(n.With) > 0 {
		notes = append(notes, fmt.Sprintf("with %s: %s", strings.Join(n.With, ", "), n.level))
	}
	for _, change := range n.ClockChanges {
		notes = append(notes, "the clock changes: "+change)
	}
	return strings.Join(notes, "; ")
}

// changes returns the changes of the clock from the start of an occurrence to its end.
func changes(o calendar.Occurrence) (all []string) {
	for at := o.Start().Add(-time.Second); ; { // a skipped begin is the instant of a change
		_, change := at.ZoneBounds()
		if change.IsZero() || change.After(o.End) {
			return all
		}
		_, before := at.Zone()
		all = append(all, fmt.Sprintf("%s to %s", change.In(time.FixedZone("", before)).Format("2006-01-02 15:04"), change.Format("15:04")))
		at = change
	}
}

func local(t time.Time) string { return t.Format("Mon 2006-01-02 15:04") }

// inUTC returns "2026-11-30 07:00 to 17:00".
func inUTC(begin, end time.Time) string {
	begin, end = begin.UTC(), end.UTC()
	layout := "2006-01-02 15:04"
	if begin.Format(time.DateOnly) == end.Format(time.DateOnly) {
		layout = "15:04"
	}
	return begin.Format("2006-01-02 15:04") + " to " + end.Format(layout)
}

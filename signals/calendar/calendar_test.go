package calendar

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

// decode decodes JSON; problems are lines.
func decode(t *testing.T, text string) (Calendar, string) {
	t.Helper()
	var parameters map[string]any
	if err := json.Unmarshal([]byte(text), &parameters); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	c, problems := Decode(parameters, time.LoadLocation)
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.Error())
	}
	return c, strings.Join(lines, "\n")
}

// berlin decodes the periods of a calendar in Berlin.
func berlin(t *testing.T, periods string) Calendar {
	t.Helper()
	c, problems := decode(t, `{"time_zone": "Europe/Berlin", "dates": {"holidays": ["2026-12-24..2026-12-26", "2026-12-31", "every 05-01"]}, "periods": [`+periods+`]}`)
	if problems != "" {
		t.Fatal(problems)
	}
	return c
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	now, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func TestComing(t *testing.T) {
	const base = `, "at_least": {"cpus": 40}}`
	for _, c := range []struct{ name, period, from, to, want string }{
		{"weekdays", `{"name": "p", "days": "fri-mon", "from": "08:00", "to": "18:00"`, "2026-11-26T00:00:00Z", "2026-12-01T00:00:00Z",
			"Fri 27 08:00 to Fri 27 18:00, Sat 28 08:00 to Sat 28 18:00, Sun 29 08:00 to Sun 29 18:00, Mon 30 08:00 to Mon 30 18:00"},
		{"over midnight", `{"name": "p", "days": "fri", "from": "22:00", "to": "02:00"`, "2026-11-28T00:30:00Z", "2026-11-29T00:00:00Z", "Fri 27 22:00 to Sat 28 02:00"},
		{"whole day", `{"name": "p", "days": "sat,sun", "from": "00:00", "to": "24:00"`, "2026-11-26T00:00:00Z", "2026-12-01T00:00:00Z", "Sat 28 00:00 to Sun 29 00:00, Sun 29 00:00 to Mon 30 00:00"},
		{"longer than a day", `{"name": "p", "on": ["2026-11-27"], "from": "00:00", "for": "50h"`, "2026-11-29T00:30:00Z", "2026-12-01T00:00:00Z", "Fri 27 00:00 to Sun 29 02:00"},
		{"exception names the day of the begin", `{"name": "p", "days": "daily", "from": "22:00", "to": "02:00", "except": ["holidays"]`, "2026-12-23T00:00:00Z", "2026-12-28T00:00:00Z",
			"Tue 22 22:00 to Wed 23 02:00, Wed 23 22:00 to Thu 24 02:00, Sun 27 22:00 to Mon 28 02:00"},
		{"last working day", `{"name": "p", "days": "last working day", "from": "06:00", "to": "12:00"`, "2026-10-01T00:00:00Z", "2027-02-01T00:00:00Z",
			"Fri 30 06:00 to Fri 30 12:00, Mon 30 06:00 to Mon 30 12:00, Thu 31 06:00 to Thu 31 12:00, Fri 29 06:00 to Fri 29 12:00"},
		{"an exception is no working day", `{"name": "p", "days": "last working day", "from": "06:00", "to": "12:00", "except": ["holidays"]`, "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", "Wed 30 06:00 to Wed 30 12:00"},
		{"first working day", `{"name": "p", "days": "first working day", "from": "06:00", "to": "12:00", "except": ["holidays"]`, "2026-05-01T00:00:00Z", "2026-06-01T00:00:00Z", "Mon 4 06:00 to Mon 4 12:00"},
		{"cron", `{"name": "p", "cron": "30 2,14 1-2 * *", "for": "90m"`, "2026-12-01T00:00:00Z", "2026-12-03T00:00:00Z",
			"Tue 1 02:30 to Tue 1 04:00, Tue 1 14:30 to Tue 1 16:00, Wed 2 02:30 to Wed 2 04:00, Wed 2 14:30 to Wed 2 16:00"},
		{"cron with a weekday", `{"name": "p", "cron": "0 8 * 12 5-7", "for": "1h"`, "2026-11-27T00:00:00Z", "2026-12-07T00:00:00Z", "Fri 4 08:00 to Fri 4 09:00, Sat 5 08:00 to Sat 5 09:00, Sun 6 08:00 to Sun 6 09:00"},
		{"first Tuesday and last Friday", `{"name": "p", "rrule": "FREQ=MONTHLY;BYDAY=1TU,-1FR", "from": "09:00", "to": "10:00"`, "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", "Tue 1 09:00 to Tue 1 10:00, Fri 25 09:00 to Fri 25 10:00"},
		{"last day of February", `{"name": "p", "rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=-1", "from": "09:00", "to": "10:00"`, "2027-01-01T00:00:00Z", "2028-12-01T00:00:00Z", "Sun 28 09:00 to Sun 28 10:00, Tue 29 09:00 to Tue 29 10:00"},
		{"begin that the clock skips", `{"name": "p", "days": "daily", "from": "02:30", "to": "04:00"`, "2027-03-28T00:00:00Z", "2027-03-28T12:00:00Z", "Sun 28 03:00 to Sun 28 04:00"},
		{"end that the clock skips", `{"name": "p", "days": "daily", "from": "01:00", "to": "02:30"`, "2027-03-28T00:00:00Z", "2027-03-28T12:00:00Z", "Sun 28 01:00 to Sun 28 03:00"},
		{"the clock skips all of it", `{"name": "p", "days": "daily", "from": "02:10", "to": "02:30"`, "2027-03-28T00:00:00Z", "2027-03-28T12:00:00Z", ""},
		{"elapsed time after a skipped begin", `{"name": "p", "cron": "30 2 * * *", "for": "90m"`, "2027-03-28T00:00:00Z", "2027-03-28T12:00:00Z", "Sun 28 03:00 to Sun 28 04:30"},
		{"the first begin and the second end", `{"name": "p", "days": "daily", "from": "02:10", "to": "02:30"`, "2026-10-24T22:00:00Z", "2026-10-25T12:00:00Z", "Sun 25 02:10 to Sun 25 02:30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, o := range berlin(t, c.period+base).Coming(at(t, c.from), at(t, c.to)) {
				got = append(got, o.Begin.Format("Mon 2 15:04")+" to "+o.End.Format("Mon 2 15:04"))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("Coming =\n%s, want\n%s", text, c.want)
			}
		})
	}
	twice := berlin(t, `{"name": "p", "days": "daily", "from": "02:10", "to": "02:30", "times": 2}`).Coming(at(t, "2026-10-24T22:00:00Z"), at(t, "2026-10-25T12:00:00Z"))
	if len(twice) != 1 || twice[0].End.Sub(twice[0].Begin) != 80*time.Minute {
		t.Errorf("the period lasts %v, want 80m", twice)
	}
}

func TestLevelsCombine(t *testing.T) {
	c := berlin(t, `
		{"name": "office", "days": "mon-fri", "from": "08:00", "to": "18:00", "lead": "10m", "at_least": {"cpus": 40, "mem": 10}, "except": ["holidays"]},
		{"name": "board", "days": "mon", "from": "09:00", "to": "10:00", "at_least": {"cpus": 50}},
		{"name": "sale", "on": ["2026-11-30"], "from": "09:30", "for": "26h", "plus": {"cpus": 20}},
		{"name": "more", "on": ["2026-11-30"], "from": "09:45", "to": "09:50", "plus": {"cpus": 1}},
		{"name": "payday", "days": "last working day", "from": "09:00", "to": "12:00", "times": 1.5},
		{"name": "news", "days": "daily", "from": "09:45", "to": "09:50", "times": 1.2},
		{"name": "itself", "cron": "0 20,21,22 * * *", "for": "150m", "plus": {"disk": 1}}`)
	for now, want := range map[string]string{
		"2026-11-30T07:49:59+01:00": ": ",
		"2026-11-30T07:50:00+01:00": "at least cpus 40 mem 10: office",
		"2026-11-30T09:29:00+01:00": "at least cpus 50 mem 10, times 1.5: office board payday",
		"2026-11-30T09:45:00+01:00": "at least cpus 50 mem 10, times 1.5, plus cpus 21: office board sale more payday news",
		"2026-11-30T18:00:00+01:00": "plus cpus 20: sale",
		"2026-12-02T22:20:00+01:00": "plus disk 1: itself",
		"2026-12-24T07:55:00+01:00": ": ",
	} {
		level := c.At(at(t, now))
		var names []string
		for _, o := range level.Of {
			names = append(names, o.Period)
		}
		if got := fmt.Sprintf("%v: %s", level, strings.Join(names, " ")); got != want {
			t.Errorf("At(%s) = %s, want %s", now, got, want)
		}
	}
	if level := c.At(at(t, "2026-12-02T22:20:00+01:00")); level.Of[0].End.Format("15:04") != "00:30" {
		t.Errorf("the active period is %v, want the one with the latest end", level.Of)
	}
}

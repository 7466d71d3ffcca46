package calendar

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// usual is a valid calendar.
const usual = `{"time_zone": "Europe/Berlin", "dates": {"holidays": ["2026-12-24..2026-12-26", "every 05-01"]},
	"periods": [{"name": "office hours", "days": "mon-fri", "from": "08:00", "to": "18:00", "lead": "10m", "at_least": {"cpus": 40}, "except": ["holidays", "2027-01-01"]}]}`

// TestDecodeRefuses changes one part of the usual calendar at a time.
func TestDecodeRefuses(t *testing.T) {
	if _, problems := decode(t, usual); problems != "" {
		t.Fatal(problems)
	}
	const days, to, raise = `"days": "mon-fri"`, `"to": "18:00"`, `"at_least": {"cpus": 40}`
	for _, c := range []struct{ old, with, want string }{
		{`"time_zone": "Europe/Berlin", `, ``, "time_zone: is missing: want a name of the IANA database"},
		{`"Europe/Berlin"`, `"Europe/Belin"`, `time_zone: no time zone has the name "Europe/Belin": want a name`},
		{`"Europe/Berlin"`, `"EST"`, `time_zone: "EST" is not a name of an area and a city`},
		{`"Europe/Berlin"`, `"+01:00"`, `time_zone: "+01:00" is not a name of an area and a city`},
		{`"Europe/Berlin"`, `"Local"`, `time_zone: "Local" is not a name of an area and a city`},
		{`"Europe/Berlin"`, `""`, `time_zone: "" is not a name of an area and a city`},
		{`"Europe/Berlin"`, `"Etc/GMT+5"`, `time_zone: "Etc/GMT+5" has the opposite sign`},
		{`"Europe/Berlin"`, `"Europe/../Berlin"`, `time_zone: no time zone has the name`},
		{`"Europe/Berlin"`, `1`, `time_zone: is a number: want a name`},
		{`"dates"`, `"` + strings.Repeat("d", 1000) + `"`, strings.Repeat("d", 60) + ": no such key"},
		{`"dates"`, `"date"`, "date: no such key (allowed: time_zone, dates, periods)"},
		{`"2026-12-24..2026-12-26"`, `"2026-12-24..2026-12-23"`, `dates.holidays: "2026-12-24..2026-12-23" ends before it begins`},
		{`"2026-12-24..2026-12-26"`, `"2026-02-30"`, `dates.holidays: "2026-02-30" is not a date: want one such as 2026-12-24`},
		{`"2026-12-24..2026-12-26"`, `"1226-02-01"`, `dates.holidays: "1226-02-01" is not from 2000 to 2199`},
		{`"every 05-01"`, `"every 02-29"`, `dates.holidays: "every 02-29" exists in leap years only`},
		{`"every 05-01"`, `"holidays"`, `dates.holidays: "holidays" is no list of dates: want dates`},
		{`"every 05-01"`, `5`, `dates.holidays: has a number: want dates`},
		{`"holidays":`, `"2026-12-24":`, `dates.2026-12-24: want a name of letters`},
		{`"except": ["holidays"`, `"except": ["holiday"`, `periods[0].except: "holiday" is no list of dates: want one of holidays, or dates`},
		{`"except": ["holidays", "2027-01-01"]`, `"except": []`, `periods[0].except: is empty`},
		{`"except": ["holidays", "2027-01-01"]`, `"except": "holidays"`, `periods[0].except: is a text: want a list`},
		{`"office hours"`, `" "`, `periods[0].name: is " ": want a name`},
		{`"name": "office hours", `, ``, `periods[0].name: is missing: want a name`},
		{`"periods": [{`, `"periods": [3, {`, `periods[0]: is a number: want a map`},
		{`"periods": [{`, `"periods": [{` + strings.TrimPrefix(strings.TrimSuffix(usual[strings.Index(usual, `{"name"`):], `]}`), `{`) + `, {`, `periods[1].name: "office hours" is the name of periods[0] too`},
		{`"periods": [`, `"periods": [], "dates": [`, `periods: is empty`},
		{days + ", ", ``, `periods[0].days: is missing: want one of days, on, cron, rrule`},
		{days, days + `, "on": ["2026-12-24"]`, `periods[0].on: days is set too: want one of days, on, cron, rrule`},
		{days, `"days": "Mon-Fri"`, `periods[0].days: is "Mon-Fri": want daily, weekdays such as mon-fri`},
		{days, `"days": "mon-mon"`, `periods[0].days: is "mon-mon", which is one day or seven: want mon or daily`},
		{days, `"days": ["mon"]`, `periods[0].days: is a list: want weekdays`},
		{`"from": "08:00", `, ``, `periods[0].from: is missing: want a time of the clock`},
		{`"08:00"`, `"8:00"`, `periods[0].from: is "8:00": want a time of the clock with two digits each`},
		{`"08:00"`, `"25:00"`, `periods[0].from: is "25:00": want a time`},
		{`"08:00"`, `"24:00"`, `periods[0].from: is "24:00": want "00:00", and the next day`},
		{`"08:00"`, `480`, `periods[0].from: is a number: want a time`},
		{`"18:00"`, `"08:00"`, `periods[0].to: equals from: for a whole day, write from: "00:00" and to: "24:00"`},
		{to, `"for": "90"`, `periods[0].for: is "90": want a duration such as 90m or 26h`},
		{to, `"for": "-1h"`, `periods[0].for: is "-1h": want a duration`},
		{to, `"for": "745h"`, `periods[0].for: is "745h": want a duration such as 90m or 26h, above 0 and at most 744h`},
		{to, to + `, "for": "1h"`, `periods[0].for: to is set too`},
		{`"10m"`, `"25h"`, `periods[0].lead: is "25h": want a duration such as 90m or 26h, above 0 and at most 24h`},
		{", " + raise, ``, `periods[0].at_least: is missing: want one of at_least, times, plus`},
		{raise, raise + `, "plus": {"cpus": 1}`, `periods[0].plus: at_least is set too: want one of at_least, times, plus; for both, write two periods`},
		{raise, `"at_least": {"cpus": 0}`, `periods[0].at_least.cpus: is 0: want a number above 0; a calendar only raises`},
		{raise, `"at_least": {"cpus": "4"}`, `periods[0].at_least.cpus: is 4: want a number`},
		{raise, `"at_least": {"cpu": 4}`, `periods[0].at_least.cpu: no such key (allowed: cpus, mem, disk, gpus)`},
		{raise, `"at_least": {}`, `periods[0].at_least: is empty: want an amount`},
		{raise, `"times": 0.5`, `periods[0].times: is 0.5: want a number above 1 and at most 100; a calendar only raises`},
		{raise, `"minus": 1`, `periods[0].minus: no such key`},
		{days, `"cron": "0 2 * * *"`, "periods[0].from: cron has the begin: remove it\nperiods[0].to: cron has only begins: write for, such as 90m\nperiods[0].for: is missing: want how long"},
		{days + `, "from": "08:00", ` + to, `"for": "1h", "cron": "0 2 * *"`, `periods[0].cron: is "0 2 * *": want five fields`},
		{days + `, "from": "08:00", ` + to, `"for": "1h", "cron": "0 * * * *"`, `periods[0].cron: the hour is "*": want numbers such as 0 or 0-23: * and / have two meanings`},
		{days + `, "from": "08:00", ` + to, `"for": "1h", "cron": "0 8 */2 * *"`, `periods[0].cron: the day of the month is "*/2": want numbers`},
		{days + `, "from": "08:00", ` + to, `"for": "1h", "cron": "0 8 13 * 5"`, `periods[0].cron: has a day of the month and a day of the week, and programs disagree`},
		{days + `, "from": "08:00", ` + to, `"for": "1h", "cron": "0 8 30 2 *"`, `periods[0].cron: is "0 8 30 2 *": no year has such a date`},
		{days + `, "from": "08:00", ` + to, `"for": "1h", "cron": "60 8 * * *"`, `periods[0].cron: the minute is "60": want numbers from 0 to 59`},
		{days + `, "from": "08:00", ` + to, `"for": "1h", "cron": "0-30 8 * * *"`, `periods[0].cron: begins 31 times a day: want at most 24`},
		{days, `"rrule": "FREQ=HOURLY"`, `periods[0].rrule: is "FREQ=HOURLY": want FREQ=DAILY, WEEKLY, MONTHLY or YEARLY`},
		{days, `"rrule": "FREQ=WEEKLY"`, `want BYDAY too, such as BYDAY=MO`},
		{days, `"rrule": "FREQ=MONTHLY"`, `want BYDAY or BYMONTHDAY too`},
		{days, `"rrule": "FREQ=YEARLY;BYDAY=MO"`, `want BYMONTH, and BYDAY or BYMONTHDAY too`},
		{days, `"rrule": "FREQ=WEEKLY;BYDAY=1MO"`, `"1MO": want a weekday such as MO; with FREQ=MONTHLY also 1TU`},
		{days, `"rrule": "FREQ=WEEKLY;BYDAY=XX"`, `"XX": want a weekday: MO, TU`},
		{days, `"rrule": "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO"`, `INTERVAL is not supported: want FREQ, BYMONTH, BYMONTHDAY and BYDAY`},
		{days, `"rrule": "FREQ=DAILY;FREQ=DAILY"`, `FREQ is repeated`},
		{days, `"rrule": "FREQ=MONTHLY;BYMONTHDAY=0"`, `"0": want a number from -31 to 31, not 0`},
		{days, `"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"`, `no year has such a date`},
	} {
		text := strings.Replace(usual, c.old, c.with, 1)
		if text == usual {
			t.Fatalf("%s is not in the usual calendar", c.old)
		}
		if _, got := decode(t, text); !strings.Contains(got, c.want) {
			t.Errorf("with %s in place of %s the problems are\n%s\nwant\n%s", c.with, c.old, got, c.want)
		}
	}
}

// FuzzDecode decodes any JSON. A calendar without problems has a level and a list at each time.
func FuzzDecode(f *testing.F) {
	f.Add(usual)
	f.Add(`{"time_zone": "UTC", "periods": [{"name": "a", "cron": "0 2 * 1 1-5", "for": "90m", "times": 2}, {"name": "b", "rrule": "FREQ=MONTHLY;BYDAY=-1TU", "from": "09:00", "to": "08:00", "plus": {"mem": 1}}]}`)
	f.Add(`{"time_zone": 1, "dates": [], "periods": {"a": [null, true]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var parameters map[string]any
		if json.Unmarshal([]byte(text), &parameters) != nil {
			return
		}
		c, problems := Decode(parameters, time.LoadLocation)
		now := time.Unix(1_800_000_000, 0)
		for _, o := range c.Coming(now, now.Add(3*day)) {
			if !o.Begin.Before(o.End) || len(c.At(o.Start()).Of) == 0 {
				t.Errorf("%v has no level at its start", o)
			}
		}
		for _, p := range problems {
			if p.What == "" {
				t.Errorf("a problem without a text: %q", p.Path)
			}
		}
	})
}

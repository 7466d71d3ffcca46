package calendar

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func works() []string { return []string{"roll", "scale_in", "repair"} }

func windows(t *testing.T, list ...WindowKeys) Windows {
	t.Helper()
	ws, problems := DecodeWindows(list, works(), time.LoadLocation)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return ws
}

func TestClosedWindows(t *testing.T) {
	ws := windows(t,
		WindowKeys{"nights", "mon-fri", "22:00", "05:00", "Europe/Berlin", []string{"roll", "scale_in"}},
		WindowKeys{"weekend", "sat,sun", "05:00", "22:00", "Europe/Berlin", []string{"roll"}},
		WindowKeys{"gap", "daily", "02:30", "02:45", "Europe/Berlin", []string{"repair"}},
	)
	for _, c := range []struct {
		work string
		now  string
		want string
	}{
		{"roll", "2026-11-27T21:59:59+01:00", "roll waits for window nights, which opens on Fri 2026-11-27 22:00 CET"},
		{"roll", "2026-11-27T22:00:00+01:00", ""},
		{"roll", "2026-11-28T04:59:59+01:00", ""},
		{"roll", "2026-11-28T05:00:00+01:00", ""},
		{"scale_in", "2026-11-28T05:00:00+01:00", "scale_in waits for window nights, which opens on Mon 2026-11-30 22:00 CET"},
		{"roll", "2026-11-29T22:00:00+01:00", "roll waits for window nights, which opens on Mon 2026-11-30 22:00 CET"},
		{"repair", "2027-03-28T01:00:00+01:00", "repair waits for window gap, which opens on Mon 2027-03-29 02:30 CEST"}, // the clock skips it on Sunday
		{"repair", "2026-10-25T02:35:00+01:00", ""}, // the clock shows it twice
	} {
		if why, opens := ws.Closed(c.work, at(t, c.now)); why != c.want || (why == "") != opens.IsZero() {
			t.Errorf("Closed(%s, %s) = %q, want %q", c.work, c.now, why, c.want)
		}
		if closes := ws.Closes(c.work, at(t, c.now)); closes.IsZero() != (c.want != "") || c.want == "" && !closes.After(at(t, c.now)) {
			t.Errorf("Closes(%s, %s) = %v, want a later time if the window is open", c.work, c.now, closes)
		}
	}
	if why, _ := (Windows{}).Closed("roll", at(t, "2026-11-27T12:00:00Z")); why != "" {
		t.Errorf("without windows: %s", why)
	}
	if closes := ws.Closes("roll", at(t, "2026-11-28T04:59:59+01:00")); !closes.Equal(at(t, "2026-11-28T05:00:00+01:00")) {
		t.Errorf("the window of nights closes at %v", closes)
	}
}

func TestRefusedWindows(t *testing.T) {
	good := WindowKeys{"a", "daily", "22:00", "05:00", "UTC", []string{"roll"}}
	with := func(change func(*WindowKeys)) []WindowKeys {
		w := good
		change(&w)
		return []WindowKeys{w}
	}
	for _, c := range []struct {
		name string
		list []WindowKeys
		want string
	}{
		{"a zone that does not exist", with(func(w *WindowKeys) { w.TimeZone = "Europe/Bonn" }), `windows[0].time_zone: no time zone has the name "Europe/Bonn": want a name of the IANA database, such as Europe/Berlin`},
		{"no zone", with(func(w *WindowKeys) { w.TimeZone = "" }), "windows[0].time_zone: is missing: want a name of the IANA database, such as Europe/Berlin, or UTC"},
		{"an empty window", with(func(w *WindowKeys) { w.To = "22:00" }), `windows[0].to: equals from: for a whole day, write from: "00:00" and to: "24:00"; for other 24 hours, for: 24h`},
		{"no end", with(func(w *WindowKeys) { w.To = "" }), `windows[0].to: is missing: want a time of the clock, such as "05:00"`},
		{"no work", with(func(w *WindowKeys) { w.Allow = nil }), "windows[0].allow: is missing: want some of roll, scale_in, repair"},
		{"unknown work", with(func(w *WindowKeys) { w.Allow = []string{"roll", "coffee"} }), `windows[0].allow: has "coffee": want some of roll, scale_in, repair`},
		{"unknown days", with(func(w *WindowKeys) { w.Days = "someday" }), `windows[0].days: is "someday": want daily, weekdays such as mon-fri or "sat,sun", "first working day" or "last working day"`},
		{"equal names", []WindowKeys{good, with(func(w *WindowKeys) { w.Allow = []string{"repair"} })[0]}, `windows[1].name: "a" is the name of windows[0] too: want another name`},
		{"an overlap", []WindowKeys{good, {"b", "sat", "04:00", "06:00", "UTC", []string{"repair", "roll"}}},
			`windows[1]: is open at the same time as windows[0], "a", and both allow roll, for example at Sat 2026-01-03 04:00 UTC: want separate times, or one window`},
		{"an overlap in two zones", []WindowKeys{good, {"b", "daily", "07:00", "08:00", "Asia/Tokyo", []string{"roll"}}},
			`windows[1]: is open at the same time as windows[0], "a", and both allow roll, for example at Fri 2026-01-02 07:00 JST: want separate times, or one window`},
		{"an overlap of different work", []WindowKeys{good, {"b", "sat", "04:00", "06:00", "UTC", []string{"repair"}}}, ""},
		{"one begins as the other ends", []WindowKeys{good, {"b", "daily", "05:00", "06:00", "UTC", []string{"roll"}}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := DecodeWindows(c.list, works(), time.LoadLocation)
			var lines []string
			for _, p := range problems {
				lines = append(lines, p.Error())
			}
			if got := strings.Join(lines, "\n"); got != c.want {
				t.Errorf("problems\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// A window that never opens is refused, and the others are checked. No text for its days has that meaning today: each weekday exists.
func TestWindowThatNeverOpens(t *testing.T) {
	ws := windows(t, WindowKeys{"a", "daily", "22:00", "05:00", "UTC", []string{"roll"}}, WindowKeys{"never", "daily", "05:00", "22:00", "UTC", []string{"roll"}})
	ws[1].days = rule{months: []time.Month{time.February}, monthDays: []int{30}}
	r := &reader{}
	ws.check(r, works())
	if want := "windows[1].days: has no day on which the window opens within a year"; len(r.problems) != 1 || r.problems[0].Error() != want {
		t.Errorf("problems %v, want %s", r.problems, want)
	}
}

// Work that waits may begin at the time that the text names, and not before.
func TestWindowsOpenWhenTheySay(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"}
	clock := rapid.Custom(func(t *rapid.T) string {
		return time.Unix(60*rapid.Int64Range(0, 24*60-1).Draw(t, "minute"), 0).UTC().Format("15:04")
	})
	rapid.Check(t, func(t *rapid.T) {
		keys := WindowKeys{
			"w", rapid.SampledFrom([]string{"daily", "mon-fri", "sun", "first working day"}).Draw(t, "days"), clock.Draw(t, "from"), clock.Draw(t, "to"),
			rapid.SampledFrom(zones).Draw(t, "zone"), []string{"roll"},
		}
		ws, problems := DecodeWindows([]WindowKeys{keys}, works(), time.LoadLocation)
		if len(problems) > 0 {
			return // from equals to
		}
		now := time.Unix(1_780_000_000+rapid.Int64Range(0, 2*366*24*3600).Draw(t, "now"), 0)
		why, opens := ws.Closed("roll", now)
		if why == "" {
			return
		}
		if early, _ := ws.Closed("roll", opens.Add(-time.Second)); !opens.After(now) || early == "" {
			t.Fatalf("%+v at %v: %s, open a second before: %t", keys, now, why, early == "")
		}
		if late, _ := ws.Closed("roll", opens); late != "" {
			t.Fatalf("%+v at %v: %s, and then: %s", keys, now, why, late)
		}
	})
}

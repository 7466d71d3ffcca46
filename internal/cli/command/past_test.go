package command

import (
	_ "embed"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/spf13/pflag"
)

func TestParseTime(t *testing.T) {
	here := time.FixedZone("here", 3600)
	newYork, samoa, beirut, havana := zone(t, "America/New_York"), zone(t, "Pacific/Apia"), zone(t, "Asia/Beirut"), zone(t, "America/Havana")
	for _, c := range []struct {
		zone            *time.Location
		now, text, want string // want ends with "..." if it is a part of an error
	}{
		{here, "2026-03-01T04:30:00+01:00", "03:10", "2026-03-01T03:10:00+01:00"},
		{here, "2026-03-01T04:30:00+01:00", "05:00", "2026-02-28T05:00:00+01:00"},
		{here, "2026-03-01T04:30:00+01:00", "04:30:00", "2026-03-01T04:30:00+01:00"},
		{here, "2026-03-01T04:30:00+01:00", "90m", "2026-03-01T03:00:00+01:00"},
		{here, "2026-03-01T04:30:00+01:00", "2026-01-02T03:10:00Z", "2026-01-02T03:10:00Z"},
		{here, "2026-03-01T04:30:00+01:00", "2026-01-02 03:10", "2026-01-02T03:10:00+01:00"},
		{here, "2026-03-01T04:30:00+01:00", "2026-01-02", "2026-01-02T00:00:00+01:00"},
		{here, "2026-03-01T04:30:00+01:00", "yesterday", "2026-02-28T00:00:00+01:00"},
		{here, "2026-03-01T04:30:00+01:00", "today", "2026-03-01T00:00:00+01:00"},
		{here, "2026-03-01T04:30:00+01:00", "now", "2026-03-01T04:30:00+01:00"},
		{here, "2026-03-01T04:30:00+01:00", "7d", "2026-02-22T04:30:00+01:00"},
		{here, "2026-03-01T04:30:00+01:00", "", "want a time ..."},
		{here, "2026-03-01T04:30:00+01:00", "noon", "want a time ..."},
		{here, "2026-03-01T04:30:00+01:00", "25:00", "want a time ..."},
		{here, "2026-03-01T04:30:00+01:00", "-5m", "want a time ..."},
		{here, "2026-03-01T04:30:00+01:00", "0s", "want a time ..."},
		{here, "2026-03-01T04:30:00+01:00", "2026-13-01", "want a time ..."},
		{here, "2026-03-01T04:30:00+01:00", "2 days", "did you mean 48h?..."},

		{newYork, "2026-11-01T03:10:00-05:00", "01:30", "2026-11-01T01:30:00-05:00"},
		{newYork, "2026-11-01T01:40:00-05:00", "01:30", "2026-11-01T01:30:00-05:00"},
		{newYork, "2026-11-01T01:10:00-05:00", "01:30", "2026-11-01T01:30:00-04:00"},
		{newYork, "2026-11-01T01:10:00-04:00", "01:30", "2026-10-31T01:30:00-04:00"},
		{newYork, "2026-11-02T09:00:00-05:00", "2026-11-01 01:30", "2026-11-01T01:30:00-05:00"},
		{newYork, "2026-11-01T01:10:00-05:00", "2026-11-01 01:30", "2026-11-01T01:30:00-04:00"},
		{newYork, "2026-03-08T01:40:00-05:00", "02:30", "2026-03-07T02:30:00-05:00"},
		{newYork, "2026-03-08T09:00:00-04:00", "02:30", "did not show 2026-03-08 02:30:00: at 2026-03-08 02:00:00 it went to 2026-03-08 03:00:00; did you mean 2026-03-08T03:30:00-04:00?..."},
		{newYork, "2026-03-09T01:00:00-04:00", "02:30", "did not show 2026-03-08 02:30:00..."},
		{newYork, "2026-11-02T09:00:00-05:00", "2026-03-08 02:30", "did you mean 2026-03-08T03:30:00-04:00?..."},
		{samoa, "2012-01-02T00:00:00+14:00", "2011-12-30", "did not show 2011-12-30 00:00:00: at 2011-12-30 00:00:00 it went to 2011-12-31 00:00:00..."},
		{beirut, "2026-04-02T00:00:00+03:00", "2026-03-29", "2026-03-29T01:00:00+03:00"},
		{havana, "2026-11-02T00:00:00-05:00", "2026-11-01", "2026-11-01T00:00:00-04:00"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		at, err := ParseTime(c.text, now.In(c.zone))
		part, wrong := strings.CutSuffix(c.want, "...")
		if wrong && (err == nil || !strings.Contains(err.Error(), part)) || !wrong && (err != nil || at.Format(time.RFC3339) != c.want) {
			t.Errorf("ParseTime(%q) at %s = %v, %v, want %s", c.text, c.now, at, err, c.want)
		}
	}
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

//go:embed testdata/zones.txt
var zones string // of the tz database

// TestParseTimeFindsTheLastMoment compares times of the clock with a clock that is turned back minute by minute: in each
// zone, soon before and after its clock changes within ten years. With SOAK it tries all changes and all minutes,
// otherwise a few.
func TestParseTimeFindsTheLastMoment(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for name := range strings.FieldsSeq(zones) {
		clock := zone(t, name)
		all, minutes, moments := changes(clock), 24*60, 6
		if os.Getenv("SOAK") == "" {
			all, minutes, moments = all[random.IntN(len(all)):][:1], 50, 1
		}
		for _, change := range all {
			for range moments {
				tryMinutes(t, minutes, change.Add(time.Duration(random.IntN(5*60)-60)*time.Minute).In(clock))
			}
			tryMinutes(t, minutes, change.Add(time.Duration(random.IntN(25*60))*time.Minute).In(clock))
		}
		if t.Failed() {
			t.Fatalf("zone %s", name)
		}
	}
}

// changes returns when a clock changes from 2017 to 2027, and the begin of these years.
func changes(clock *time.Location) []time.Time {
	from, to := time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	all := []time.Time{from}
	for at := from.In(clock); ; {
		_, end := at.ZoneBounds()
		if end.IsZero() || end.After(to) {
			return all
		}
		all = append(all, end)
		at = end
	}
}

// tryMinutes compares ParseTime at one moment, for some minutes of the day, with a clock that is turned back.
func tryMinutes(t *testing.T, minutes int, now time.Time) {
	t.Helper()
	showed := map[string]time.Time{}
	for at := now; now.Sub(at) < 75*time.Hour; at = at.Add(-time.Minute) {
		if text := at.Format("15:04"); showed[text].IsZero() {
			showed[text] = at
		}
	}
	for text, want := range showed {
		if minutes--; minutes < 0 {
			return
		}
		// The last date with this time on the clock: today, or yesterday if the clock has not come to it.
		year, month, day := now.Date()
		if text > now.Format("15:04") {
			day--
		}
		due := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
		at, err := ParseTime(text, now)
		if skipped := want.Format(time.DateOnly) < due; skipped != (err != nil) || !skipped && !at.Equal(want) {
			t.Errorf("ParseTime(%s) at %v = %v, %v, want %v, skipped: %v", text, now, at, err, want, skipped)
		}
	}
}

func TestSinceFlag(t *testing.T) {
	parse := func(text string) (d time.Duration, err error) {
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		SinceVar(flags, &d, "since", time.Hour, "begin")
		return d, flags.Parse([]string{"--since", text})
	}
	for text, want := range map[string]time.Duration{"8h": 8 * time.Hour, "500ms": 500 * time.Millisecond, "1d": 24 * time.Hour, "1w": 168 * time.Hour, "1d12h": 36 * time.Hour} {
		if d, err := parse(text); err != nil || d != want {
			t.Errorf("--since %s = %v, %v", text, d, err)
		}
	}
	if d, err := parse(time.Now().Add(-time.Hour).Format(time.RFC3339)); err != nil || d < time.Hour || d > time.Hour+time.Minute || d%time.Second != 0 {
		t.Errorf("--since an hour ago = %v, %v", d, err)
	}
	for text, part := range map[string]string{"2100-01-01": "not in the past", "-1m": "want a time", "0s": "want a time", "2 d": "did you mean 48h?"} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("--since %s: %v, want %q", text, err, part)
		}
	}
}

package calendar

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

//go:embed testdata/zones.txt
var zones string // of the tz database

// world is a calendar of one period in one zone, with the same rules as plain values.
type world struct {
	zone     *time.Location
	weekdays [7]bool
	from, to int // minutes of the day; to above from
	length   int // minutes, 0: to counts
	lead     int // minutes
	except   date
	calendar Calendar
}

// TestLevelsFollowTheClock compares the level of each minute of three days with a walk over the clock, in each zone. Half
// of the days are at a change of the clock. With SOAK it tries 28 million minutes, otherwise a few of a tenth of the zones.
func TestLevelsFollowTheClock(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	worlds, step := 1, 7
	if os.Getenv("SOAK") != "" {
		worlds, step = 11, 1
	}
	checks := 0
	for name := range strings.FieldsSeq(zones) {
		if step > 1 && random.IntN(10) > 0 {
			continue
		}
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for range worlds {
			start := time.Date(2017, 1, 1+random.IntN(3650), 0, 0, 0, 0, time.UTC)
			if _, change := start.In(zone).ZoneBounds(); random.IntN(2) == 0 && !change.IsZero() {
				start = change.Add(-time.Duration(random.IntN(48*60)) * time.Minute)
			}
			checks += randomWorld(t, random, zone, start).walk(t, start.In(zone), step)
		}
		if t.Failed() {
			t.Fatalf("zone %s", name)
		}
	}
	t.Logf("%d checks", checks)
}

// randomWorld returns a world whose exception is a date near the start.
func randomWorld(t *testing.T, random *rand.Rand, zone *time.Location, start time.Time) world {
	t.Helper()
	w := world{zone: zone, from: random.IntN(24 * 60), except: dateOf(start) + date(random.IntN(3))}
	var names []string
	for d := range w.weekdays {
		if w.weekdays[d] = random.IntN(2) == 0; w.weekdays[d] {
			names = append(names, fmt.Sprint(d))
		}
	}
	if len(names) == 0 {
		names, w.weekdays[1] = []string{"1"}, true
	}
	period := fmt.Sprintf(`"except": [%q]`, w.except)
	if random.IntN(2) == 0 {
		w.lead = 1 + random.IntN(120)
		period += fmt.Sprintf(`, "lead": "%dm"`, w.lead)
	}
	if random.IntN(2) == 0 {
		w.length = 1 + random.IntN(40*60)
		period += fmt.Sprintf(`, "cron": "%d %d * * %s", "for": "%dm"`, w.from%60, w.from/60, strings.Join(names, ","), w.length)
	} else {
		w.to = w.from + 1 + random.IntN(24*60-1)
		var days []string
		for _, n := range names {
			days = append(days, dayNames[n[0]-'0'])
		}
		end := w.to % (24 * 60)
		period += fmt.Sprintf(`, "days": %q, "from": "%02d:%02d", "to": "%02d:%02d"`, strings.Join(days, ","), w.from/60, w.from%60, end/60, end%60)
	}
	var problems string
	w.calendar, problems = decode(t, `{"time_zone": "UTC", "periods": [{"name": "p", "plus": {"cpus": 1}, `+period+`}]}`)
	if problems != "" {
		t.Fatal(problems)
	}
	w.calendar.periods[0].zone = zone // the list has old names without an area, which Decode refuses
	return w
}

// walk compares each minute of three days, and returns their number.
func (w world) walk(t *testing.T, start time.Time, step int) (checks int) {
	t.Helper()
	const before, days = 3, 3 // days that are walked before the start, and compared from it
	begin := start.Add(-before * day).Truncate(time.Minute)
	walls := make([]time.Time, (before+days+5)*24*60) // shown by the clock at each minute
	for i := range walls {
		at := begin.Add(time.Duration(i) * time.Minute)
		_, offset := at.Zone()
		walls[i] = at.UTC().Add(time.Duration(offset) * time.Second)
	}
	exact, shortest := make([]bool, len(walls)), make([]bool, len(walls))
	for d := dateOf(begin) + 1; d < dateOf(begin)+before+days+2; d++ {
		if !w.weekdays[d.weekday()] || d == w.except {
			continue
		}
		from, to := d.at(w.from), d.at(w.to)
		first := 0
		for walls[first].Before(from) {
			first++
		}
		end := first + w.length
		if w.length == 0 {
			for i, wall := range walls {
				if !wall.After(to) {
					end = i
				}
				shortest[i] = shortest[i] || !wall.Before(from) && wall.Before(to)
			}
			if !walls[end].Equal(to) {
				end++ // the clock skips it
			}
		}
		if first < end {
			for i := max(0, first-w.lead); i < end; i++ {
				exact[i] = true
			}
		}
	}
	for i := before * 24 * 60; i < (before+days)*24*60; i += step {
		now := begin.Add(time.Duration(i) * time.Minute)
		active := len(w.calendar.At(now).Of) > 0
		if active != exact[i] || shortest[i] && !active {
			t.Fatalf("%+v at %v (%v): active %v, want %v", w, now, walls[i], active, exact[i])
		}
		checks++
	}
	return checks
}

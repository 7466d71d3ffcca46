package forecast

import (
	"bufio"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// world is a series of loads, one a slot, from a local midnight.
type world struct {
	name  string
	zone  *time.Location
	start time.Time
	y     []float64
}

// window returns the loads of 28 days before slot end.
func (w world) window(end int) Window {
	const most = 28 * inDay
	from := max(0, end-most)
	out := Window{Times: make([]int64, 0, end-from), Values: make([]float64, 0, end-from)}
	for i := from; i < end; i++ {
		if known(w.y[i]) {
			out.Times = append(out.Times, w.at(i).Unix())
			out.Values = append(out.Values, w.y[i])
		}
	}
	return out
}

// at returns the begin of a slot.
func (w world) at(slot int) time.Time { return w.start.Add(time.Duration(slot) * Step) }

// recorded reads a series of testdata/series: two lines of comments, then one value a line. Half-hour values are interpolated.
func recorded(t testing.TB, name string) world {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "series", name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := world{name: name, zone: time.UTC}
	steps := 1
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if _, rest, ok := strings.Cut(line, "start="); ok {
			if strings.Contains(line, "step_seconds=1800") {
				steps = 6
			}
			if w.start, err = time.Parse("2006-01-02T15:04:05", rest[:19]); err != nil {
				t.Fatal(err)
			}
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		x := math.NaN()
		if line != "" {
			if x, err = strconv.ParseFloat(line, 64); err != nil {
				t.Fatal(err)
			}
		}
		for k := 1; steps > 1 && k < steps && len(w.y) > 0; k++ {
			last := w.y[len(w.y)-k]
			w.y = append(w.y, last+(x-last)*float64(k)/float64(steps))
		}
		w.y = append(w.y, x)
	}
	return w
}

// generated returns a world of 56 days in Berlin: a business day on weekdays, a flat weekend, and noise of 2 %. change may
// change the load, by slot, day and hour of the local clock.
func generated(name string, seed uint64, change func(w *world, r *rand.Rand)) world {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	w := world{name: name, zone: zone, start: time.Date(2026, 5, 4, 0, 0, 0, 0, zone)} // a Monday, 56 days without a change of clock
	if name == "dst" {
		w.start = time.Date(2026, 2, 19, 0, 0, 0, 0, zone) // the clock skips an hour on day 38
	}
	r := rand.New(rand.NewPCG(seed, 40))
	w.y = make([]float64, 56*inDay)
	for i := range w.y {
		w.y[i] = business(w.at(i).In(zone)) * (1 + 0.02*r.NormFloat64())
	}
	if change != nil {
		change(&w, r)
	}
	return w
}

// business is the load of an office: 1000 at noon of a weekday, a third of it at noon of a weekend.
func business(at time.Time) float64 {
	hour := float64(at.Hour()) + float64(at.Minute())/60
	day := shape(hour)
	if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
		day *= 0.3
	}
	return 100 + 900*day
}

// shape rises within an hour and a half around 8:30, has a dip at noon, and falls around 18:00.
func shape(hour float64) float64 {
	up := 1 / (1 + math.Exp(-(hour-8.5)*2))
	down := 1 / (1 + math.Exp((hour-18)*1.5))
	return up * down * (1 - 0.15*math.Exp(-(hour-12.5)*(hour-12.5)*2))
}

// each sets every load to a function of its slot and local time.
func (w *world) each(f func(i int, at time.Time, y float64) float64) {
	for i := range w.y {
		w.y[i] = f(i, w.at(i).In(w.zone), w.y[i])
	}
}

// day returns the number of the local day of a slot, from 0.
func day(i int) int { return i / inDay }

// worlds returns the generated worlds of the table.
func worlds() []world {
	scale := func(from int, factor float64) func(*world, *rand.Rand) {
		return func(w *world, _ *rand.Rand) {
			w.each(func(i int, _ time.Time, y float64) float64 {
				if day(i) >= from {
					return y * factor
				}
				return y
			})
		}
	}
	all := []world{
		generated("daily", 1, func(w *world, r *rand.Rand) {
			w.each(func(_ int, at time.Time, _ float64) float64 {
				return (100 + 900*shape(float64(at.Hour())+float64(at.Minute())/60)) * (1 + 0.02*r.NormFloat64())
			})
		}),
		generated("weekly", 2, nil),
		generated("trend", 3, func(w *world, _ *rand.Rand) {
			w.each(func(i int, _ time.Time, y float64) float64 {
				return y * math.Pow(1.015, float64(i)/float64(inDay))
			})
		}),
		generated("missing", 4, func(w *world, r *rand.Rand) {
			w.each(func(i int, _ time.Time, y float64) float64 {
				if day(i) == 30 || r.Float64() < 0.2 {
					return math.NaN()
				}
				return y
			})
		}),
		generated("cron", 5, func(w *world, r *rand.Rand) {
			w.each(func(_ int, at time.Time, _ float64) float64 {
				y := 100.0
				if at.Minute() < 10 {
					y = 600
				}
				return y * (1 + 0.02*r.NormFloat64())
			})
		}),
		generated("holiday", 6, holidays),
		generated("shiftdown", 7, scale(37, 0.4)),
		generated("shiftup", 8, scale(37, 2.5)),
		generated("moved", 9, func(w *world, r *rand.Rand) {
			w.each(func(i int, at time.Time, y float64) float64 {
				if day(i) < 40 {
					return y
				}
				return business(at.Add(2*time.Hour)) * (1 + 0.02*r.NormFloat64())
			})
		}),
		generated("dst", 10, nil),
		generated("broken", 11, func(w *world, _ *rand.Rand) {
			w.each(func(i int, _ time.Time, y float64) float64 {
				switch {
				case day(i) == 38 || day(i) == 39:
					return 0
				case day(i) >= 44 && day(i) <= 46:
					return w.y[44*inDay-1]
				}
				return y
			})
		}),
		generated("spikes", 12, func(w *world, r *rand.Rand) {
			left := 0
			w.each(func(_ int, _ time.Time, y float64) float64 {
				if left--; r.Float64() < 2.0/float64(inDay) {
					left = 3
				}
				if left > 0 {
					return y * 2
				}
				return y
			})
		}),
		generated("flatnoise", 13, noises["flatnoise"]),
		generated("arnoise", 14, noises["arnoise"]),
		generated("steps", 15, noises["steps"]),
		generated("twoweeks", 16, nil),
		generated("oneday", 17, nil),
	}
	all[len(all)-2].y = all[len(all)-2].y[:14*inDay]
	all[len(all)-1].y = all[len(all)-1].y[:inDay]
	return all
}

// holidays gives three weekdays the load of a Sunday.
func holidays(w *world, r *rand.Rand) {
	w.each(func(i int, at time.Time, y float64) float64 {
		if d := day(i); d == 36 || d == 45 || d == 46 {
			return (100 + 270*shape(float64(at.Hour())+float64(at.Minute())/60)) * (1 + 0.02*r.NormFloat64())
		}
		return y
	})
}

// noises are worlds without a season: white noise, noise that stays for hours, and steps at random times.
var noises = map[string]func(*world, *rand.Rand){
	"flatnoise": func(w *world, r *rand.Rand) {
		w.each(func(int, time.Time, float64) float64 { return 500 * math.Exp(0.2*r.NormFloat64()) })
	},
	"arnoise": func(w *world, r *rand.Rand) {
		x := 0.0
		w.each(func(int, time.Time, float64) float64 {
			x = 0.97*x + 0.08*r.NormFloat64()
			return 500 * math.Exp(x)
		})
	},
	"steps": func(w *world, r *rand.Rand) {
		level := 500.0
		w.each(func(int, time.Time, float64) float64 {
			if r.Float64() < 4.0/float64(inDay) {
				level = 200 + 800*r.Float64()
			}
			return level * (1 + 0.02*r.NormFloat64())
		})
	},
}

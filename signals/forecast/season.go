package forecast

import "math"

// season is one way to divide time into slots that are alike.
type season struct {
	name   string // in explanations
	slots  int    // of its profile; 0: no season, the load stays as it is
	rate   float64
	memory int // slots of the level
}

// seasons lists the candidates. The first one serves the guard only.
var seasons = [...]season{
	{"margin", 0, 0, inWeek},
	{"days", inDay, 0.2, inDay},
	{"weekdays", 2 * inDay, 0.25, inWeek},
	{"weeks", inWeek, 0.35, inWeek},
}

// slot returns the slot of the profile for a slot of the local week.
func (s season) slot(week uint16) int {
	w := int(week)
	switch s.slots {
	case inWeek:
		return w
	case 2 * inDay:
		if w < inDay || w >= 6*inDay {
			return inDay + w%inDay
		}
	}
	return w % inDay
}

// The constants of the forecast. The recent ratio fades by fade in each slot ahead.
const (
	small      = 0.02       // of the level: the addition that makes ratios of small loads meaningful
	recent     = inHour / 3 // slots of the ratio
	present    = inHour / 2 // slots of the load without a season
	fade       = 0.97
	leastRatio = 0.05
	mostRatio  = 8
	overPeak   = 1.1 // a forecast is at most this multiple of the highest load of a week
)

// pass is one pass over a grid: it forecasts at the end of each slot from what was known then.
type pass struct {
	season
	g     grid
	ahead int // slots that are forecast: horizon+1
	q     float64

	profile []float64
	count   []int32
	sum     float64 // of the known values in the memory
	in      int     // their number
	ratios  [recent]float64
	late    [present]float64 // the latest values, for the season-less one
	fades   []float64

	res   residuals
	made  []float64 // forecasts of the latest ahead slots, with the addition; ring of ahead x ahead
	small []float64 // their additions
	peaks peaks
}

// result is a forecast at the end of a slot.
type result struct {
	load float64 // the highest upper bound of the load in the slots ahead; NaN: no forecast
	at   int     // how many slots ahead that is, from 1
	mean float64 // the forecast for that slot without the margin
}

// run returns the forecasts at the ends of the slots from on.
func (r Rule) run(g grid, s season, from int) []result {
	p := &pass{season: s, g: g, ahead: r.horizon() + 1, q: r.quantile()}
	p.profile, p.count = make([]float64, s.slots), make([]int32, s.slots)
	p.made, p.small = make([]float64, p.ahead*p.ahead), make([]float64, p.ahead)
	for i := range p.ratios {
		p.ratios[i] = math.NaN()
	}
	for i := range p.late {
		p.late[i] = math.NaN()
	}
	for i := range p.small {
		p.small[i] = math.NaN()
	}
	p.fades = make([]float64, p.ahead+1)
	for k := range p.fades {
		p.fades[k] = math.Pow(fade, float64(k))
	}
	hours := 24
	if s.slots == 0 {
		hours = 1
	}
	p.res = newResiduals(hours, p.ahead)
	results := make([]result, 0, len(g.y)-from)
	for i := range g.y {
		p.observe(i)
		ok := p.predict(i)
		if i%inHour == 0 {
			p.res.forget()
		}
		if i >= from {
			if !ok {
				results = append(results, result{load: math.NaN()})
				continue
			}
			results = append(results, p.upper(i))
		}
	}
	return results
}

// level returns L, the mean of the memory: known if a quarter of its slots are.
func (p *pass) level() (float64, bool) {
	return p.sum / float64(p.in), p.in*4 >= p.memory
}

// expect returns S, the profile around a slot times the level. A metric may have a point in each second or third slot only.
func (p *pass) expect(slot int, level float64) (float64, bool) {
	before, after := slot-1, slot+1
	if before < 0 {
		before = p.slots - 1
	}
	if after == p.slots {
		after = 0
	}
	here, near, n := p.profile[slot], 0.0, 0
	for _, s := range [2]int{before, after} {
		if p.count[s] > 0 {
			near, n = near+p.profile[s], n+1
		}
	}
	switch {
	case p.count[slot] > 0:
		return level * (2*here + near + float64(2-n)*here) / 4, true
	case n > 0:
		return level * near / float64(n), true
	}
	return 0, false
}

// observe adds the value of slot i: residuals of its forecasts, the ratio to the expected value, level and profile.
func (p *pass) observe(i int) {
	y := p.g.y[i]
	if i%inDay == 0 && i > 0 {
		p.res.weight /= p.res.perDay
	}
	if known(y) {
		hour := int(p.g.of[i]) % inDay / inHour
		for k := 1; k <= p.ahead && k <= i; k++ {
			row := (i - k) % p.ahead
			if e := p.small[row]; known(e) {
				p.res.add(hour, k-1, (y+e)/p.made[row*p.ahead+k-1])
			}
		}
		p.peaks.add(i, y)
	}
	p.peaks.drop(i - inWeek)
	level, ok := p.level()
	ratio := math.NaN()
	slot := 0
	if p.slots > 0 {
		slot = p.slot(p.g.of[i])
		if expected, has := p.expect(slot, level); ok && has && known(y) && level > 0 {
			ratio = (y + small*level) / (expected + small*level)
		}
	}
	p.ratios[i%recent], p.late[i%present] = ratio, y
	if known(y) {
		p.sum, p.in = p.sum+y, p.in+1
	}
	if old := i - p.memory; old >= 0 && known(p.g.y[old]) {
		p.sum, p.in = p.sum-p.g.y[old], p.in-1
	}
	if level, ok = p.level(); p.slots > 0 && ok && known(y) && level > 0 {
		p.count[slot]++
		x, rate := y/level, 1/float64(p.count[slot])
		if p.count[slot] > 1 {
			x = min(x, 3*p.profile[slot]+0.3)
		}
		p.profile[slot] += max(p.rate, rate) * (x - p.profile[slot])
	}
}

// predict stores the forecasts at the end of slot i. It returns false if there is none.
func (p *pass) predict(i int) bool {
	row := i % p.ahead
	p.small[row] = math.NaN()
	level, ok := p.level()
	if !ok || level <= 0 {
		return false
	}
	e := small * level
	made := p.made[row*p.ahead : (row+1)*p.ahead]
	if p.slots == 0 {
		now, has := mean(p.late[:])
		if !has {
			return false
		}
		for k := range made {
			made[k] = now + e
		}
		p.small[row] = e
		return true
	}
	ratio, has := mean(p.ratios[:])
	if !has {
		ratio = 1
	}
	ratio = min(max(ratio, leastRatio), mostRatio)
	for k := range made {
		expected, has := p.expect(p.slot(p.g.of[i+k+1]), level)
		if !has {
			return false
		}
		made[k] = expected*(1+p.fades[k+1]*(ratio-1)) + e
	}
	p.small[row] = e
	return true
}

// upper returns the highest upper bound of the forecasts at the end of slot i.
func (p *pass) upper(i int) result {
	row := i % p.ahead
	e := p.small[row]
	best := result{load: math.NaN()}
	for k := range p.ahead {
		hour := int(p.g.of[i+k+1]) % inDay / inHour
		factor := p.res.quantile(hour, k, p.q)
		made := p.made[row*p.ahead+k]
		if x := made*factor - e; known(x) && !(x <= best.load) {
			best = result{x, k + 1, made - e}
		}
	}
	best.load = min(max(best.load, 0), overPeak*p.peaks.top()) // NaN stays NaN
	return best
}

// mean returns the mean of the known values.
func mean(all []float64) (float64, bool) {
	sum, n := 0.0, 0
	for _, x := range all {
		if known(x) {
			sum, n = sum+x, n+1
		}
	}
	return sum / float64(n), n > 0
}

// peaks has the highest value of a sliding range: values that no later one reaches, oldest first.
type peaks struct {
	at []int
	y  []float64
}

func (p *peaks) add(i int, y float64) {
	for len(p.y) > 0 && p.y[len(p.y)-1] <= y {
		p.at, p.y = p.at[:len(p.at)-1], p.y[:len(p.y)-1]
	}
	p.at, p.y = append(p.at, i), append(p.y, y)
}

// drop forgets the values of slot i and before.
func (p *peaks) drop(i int) {
	if len(p.at) > 0 && p.at[0] <= i {
		p.at, p.y = p.at[1:], p.y[1:]
	}
}

func (p *peaks) top() float64 {
	if len(p.y) == 0 {
		return 0
	}
	return p.y[0]
}

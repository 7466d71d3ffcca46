package forecast

import "math"

// residuals has the distribution of load / forecast, for each hour of the day and each slot ahead. A histogram has 16 bins an
// octave, from 1/8 to 8: the first 16 bits of a float64 are its exponent and four bits of its mantissa.
type residuals struct {
	hours, ahead int
	bins         []float32 // hours x ahead x inHistogram
	read         []float64 // quantiles that were read in this hour; 0: not read
	weight       float64   // of a residual of today
	perDay       float64
}

const (
	inHistogram = 96
	lowest      = 0.125
	perDay      = 0.88 // weight of a residual, against one that is a day younger
	nearHours   = 2    // hours before and after, whose residuals count too
	leastKnown  = 24   // residuals, in residuals of today: a quantile of fewer is unknown
)

func newResiduals(hours, ahead int) residuals {
	return residuals{
		hours: hours, ahead: ahead, weight: 1, perDay: perDay,
		bins: make([]float32, hours*ahead*inHistogram), read: make([]float64, hours*ahead),
	}
}

func (r *residuals) add(hour, k int, ratio float64) {
	const base = 0x3FC0 // of 0.125
	bin := min(max(int(math.Float64bits(max(ratio, lowest))>>48)-base, 0), inHistogram-1)
	r.bins[(hour%r.hours*r.ahead+k)*inHistogram+bin] += float32(r.weight)
}

// forget lets quantile read the histograms again. It is called at the same times of each pass: so that an answer does not
// depend on the first quantile that the pass reads.
func (r *residuals) forget() { clear(r.read) }

// quantile returns the q-quantile for an hour and the slots ahead, NaN if it is unknown.
func (r *residuals) quantile(hour, k int, q float64) float64 {
	hour %= r.hours
	at := &r.read[hour*r.ahead+k]
	if *at == 0 {
		*at = r.compute(hour, k, q)
	}
	return *at
}

func (r *residuals) compute(hour, k int, q float64) float64 {
	var sum [inHistogram]float32
	near := min(nearHours, r.hours/2)
	for d := -near; d <= near; d++ {
		h := (hour + d + r.hours) % r.hours
		at := (h*r.ahead + k) * inHistogram
		for b, x := range r.bins[at : at+inHistogram] {
			sum[b] += x
		}
	}
	var total float64
	for _, x := range sum {
		total += float64(x)
	}
	if total < leastKnown*r.weight {
		return math.NaN()
	}
	above := (1 - q) * total
	for b := inHistogram - 1; b >= 0; b-- {
		x := float64(sum[b])
		if above < x {
			low, high := edge(b), edge(b+1)
			return high - (high-low)*above/x
		}
		above -= x
	}
	return lowest
}

// edge returns the lower edge of a bin.
func edge(bin int) float64 {
	return math.Float64frombits(uint64(0x3FC0+bin) << 48)
}

package simulate

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"strconv"
	"time"
)

// draw returns a number above 0 and below 1, which depends on the seed and the names alone.
func draw(seed uint64, names ...string) float64 {
	h := fnv.New64a()
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, seed))
	for _, name := range names {
		_, _ = h.Write([]byte(name))
		_, _ = h.Write([]byte{0})
	}
	// The finalizer of MurmurHash3: similar names have similar sums before it.
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return (float64(x>>11) + 0.5) / (1 << 53)
}

// Delay is a random time with a log-normal distribution. If P95 is not more than P50, it is always P50.
type Delay struct{ P50, P95 time.Duration }

// normalP95 is the 95th percentile of the normal distribution.
const normalP95 = 1.6448536269514722

// at returns the time at a place between 0 and 1 of the distribution.
func (d Delay) at(u float64) time.Duration {
	if d.P95 <= d.P50 || d.P50 <= 0 {
		return max(0, d.P50)
	}
	sigma := (math.Log(float64(d.P95)) - math.Log(float64(d.P50))) / normalP95
	normal := math.Sqrt2 * math.Erfinv(2*u-1)
	return time.Duration(float64(d.P50) * math.Exp(sigma*normal)).Round(time.Millisecond)
}

// interruption returns when the provider interrupts a machine that runs from a time on; zero: not before end. The rate of each hour is
// perHour times the weather of the market, which has a mean of 1 and is the same for all machines of the market.
func interruption(seed uint64, perHour float64, market, machine string, from, end time.Time) time.Time {
	if perHour <= 0 {
		return time.Time{}
	}
	left := -math.Log(draw(seed, "life", machine))
	for hour := from.Truncate(time.Hour); hour.Before(end); hour = hour.Add(time.Hour) {
		begin, rate := from, -perHour*math.Log(draw(seed, "weather", market, strconv.FormatInt(hour.Unix(), 10)))
		if hour.After(begin) {
			begin = hour
		}
		hazard := rate * hour.Add(time.Hour).Sub(begin).Hours()
		if hazard >= left {
			return begin.Add(time.Duration(left / rate * float64(time.Hour)).Round(time.Millisecond))
		}
		left -= hazard
	}
	return time.Time{}
}

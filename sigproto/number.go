package sigproto

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

// Eight decimal digits in a word, the first in the lowest byte, each 0 to 9. Encoder and decoder use this form.
const (
	asciiZeros = 0x3030303030303030
	lowSeven   = 0x7f7f7f7f7f7f7f7f
	overNine   = 0x7676767676767676 // carries values of 10 and above into the high bit
	highBits   = 0x8080808080808080
)

// digits4 spreads n < 10000 over four bytes.
func digits4(n uint32) uint32 {
	hundreds := n * 5243 >> 19 // n / 100
	pairs := hundreds | (n-100*hundreds)<<16
	tens := pairs * 103 >> 10 & 0x000f000f // each pair / 10
	return tens | (pairs-10*tens)<<8
}

// digits8 spreads n < 1e8 over eight bytes.
func digits8(n uint32) uint64 {
	high := n / 10000
	return uint64(digits4(high)) | uint64(digits4(n-10000*high))<<32
}

// number8 is the inverse of digits8.
func number8(x uint64) uint64 {
	x = x*10 + x>>8
	return ((x&0x000000ff000000ff)*0x000f424000000064 + (x>>16&0x000000ff000000ff)*0x0000271000000001) >> 32
}

// notDigits returns a word whose high bits mark the bytes of x above 9.
func notDigits(x uint64) uint64 { return ((x & lowSeven) + overNine | x) & highBits }

// timeWriter writes the start of a point. Adjacent times share all but the last four digits, so the others are cached.
type timeWriter struct {
	high int64  // the time / 10000
	word uint64 // '[' and the six digits of high
}

// put writes '[', the time and ',' and returns their length.
func (s *timeWriter) put(w []byte, t int64) int {
	if t < 1e9 || t >= 1e10 {
		return len(append(strconv.AppendInt(append(w[:0], '['), t, 10), ','))
	}
	if high := t / 10000; high != s.high {
		s.high = high
		s.word = '[' | (digits8(uint32(high))|asciiZeros)>>16<<8
	}
	_ = w[11]
	binary.LittleEndian.PutUint64(w, s.word)
	binary.LittleEndian.PutUint32(w[7:], digits4(uint32(t-10000*s.high))|asciiZeros>>32)
	w[11] = ','
	return 12
}

// putValue writes a short text that reads back as v, and returns its length, or 0 if v is not finite. A quotient of two
// integers that a float64 holds exactly is rounded like its decimal text, so equality proves the round trip.
func putValue(w []byte, v float64) int {
	sign := 0
	if math.Signbit(v) {
		w[0], sign, v = '-', 1, -v
	}
	if v < 1e5 {
		if m := uint32(v*1e3 + 0.5); m < 1e8 && float64(m)/1e3 == v {
			return sign + putThousandths(w[sign:], m)
		}
	}
	size := putLong(w[sign:], v)
	if size == 0 {
		return 0
	}
	return sign + size
}

// putThousandths writes m/1000 for m < 1e8, without leading or trailing zeros.
func putThousandths(w []byte, m uint32) int {
	x := digits8(m)
	leading := min(bits.TrailingZeros64(x)/8, 4) // one digit stays before the point
	decimals := 3 - min(bits.LeadingZeros64(x)/8, 3)
	x |= asciiZeros
	whole := 5 - leading
	binary.LittleEndian.PutUint64(w, x>>(8*leading))
	if decimals == 0 {
		return whole
	}
	w[whole] = '.'
	binary.LittleEndian.PutUint32(w[whole+1:], uint32(x>>40))
	return whole + 1 + decimals
}

// putLong is putValue for v >= 0 without the fast path.
func putLong(w []byte, v float64) int {
	const exact = 1 << 53
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0
	case v < exact && v == math.Trunc(v):
		return len(strconv.AppendUint(w[:0], uint64(v), 10))
	case v < 1e-6 || v >= 1e21:
		return len(strconv.AppendFloat(w[:0], v, 'e', -1, 64))
	case v < exact/1e6:
		if m := uint64(v*1e6 + 0.5); float64(m)/1e6 == v {
			return putMillionths(w, m)
		}
	}
	return len(strconv.AppendFloat(w[:0], v, 'f', -1, 64))
}

// putMillionths writes m/1e6, which is not whole, without trailing zeros.
func putMillionths(w []byte, m uint64) int {
	whole := m / 1e6
	n := len(strconv.AppendUint(w[:0], whole, 10))
	x := digits8(uint32(m-1e6*whole)) >> 16 // six digits
	w[n] = '.'
	binary.LittleEndian.PutUint64(w[n+1:], x|asciiZeros)
	return n + 1 + (bits.Len64(x)+7)/8
}

// powers of ten that a float64 holds exactly
var powers = [...]float64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// shortValue reads a number and the following bracket from eight bytes: digits with at most one decimal point. It
// returns the length without the bracket, or 0 for other bytes.
func shortValue(x uint64) (v float64, size int) {
	digits := x ^ asciiZeros
	others := notDigits(digits)
	if others == 0 {
		return 0, 0
	}
	whole := bits.TrailingZeros64(others) / 8 // digits before the point or the bracket
	if whole == 0 || whole > 1 && byte(digits) == 0 {
		return 0, 0
	}
	end, count := whole, whole
	if byte(x>>(8*whole)) == '.' {
		others &= others - 1
		if others == 0 {
			return 0, 0
		}
		end = bits.TrailingZeros64(others) / 8
		count = end - 1
		if count == whole {
			return 0, 0
		}
		before := uint64(1)<<(8*whole) - 1
		digits = digits&before | digits>>8&^before // without the point
	}
	if byte(x>>(8*end)) != ']' {
		return 0, 0
	}
	m := number8(digits << (64 - 8*count))
	return float64(m) / powers[count-whole], end
}

// number reads a JSON number at the start of b, and returns its length, or 0 if it is missing or exceeds a float64.
// It ends before the first byte that cannot belong to it, which b must contain.
func number(b []byte) (v float64, size int) {
	n := 0
	if n < len(b) && b[n] == '-' {
		n++
	}
	var mantissa uint64
	first := n
	n, mantissa = digitRun(b, n, 0)
	if n == first || n > first+1 && b[first] == '0' {
		return 0, 0
	}
	digits, decimals := n-first, 0
	if n < len(b) && b[n] == '.' {
		dot := n
		n, mantissa = digitRun(b, n+1, mantissa)
		decimals = n - dot - 1
		if decimals == 0 {
			return 0, 0
		}
		digits += decimals
	}
	if n < len(b) && (b[n]|0x20) == 'e' {
		return exponent(b, n+1)
	}
	if digits > 19 || mantissa > 1<<53 || decimals >= len(powers) {
		return parse(b[:n])
	}
	v = float64(mantissa) / powers[decimals]
	if first == 1 {
		v = -v
	}
	return v, n
}

// exponent reads the rest of a number; its 'e' is before n.
func exponent(b []byte, n int) (v float64, size int) {
	if n < len(b) && (b[n] == '+' || b[n] == '-') {
		n++
	}
	end, _ := digitRun(b, n, 0)
	if end == n {
		return 0, 0
	}
	return parse(b[:end])
}

// digitRun reads digits from n on, adds them to the mantissa, and returns where they end. A mantissa of more than 19
// digits is invalid.
func digitRun(b []byte, n int, mantissa uint64) (end int, sum uint64) {
	for ; n < len(b); n++ {
		d := b[n] - '0'
		if d > 9 {
			break
		}
		mantissa = mantissa*10 + uint64(d)
	}
	return n, mantissa
}

func parse(b []byte) (v float64, size int) {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return 0, 0
	}
	return v, len(b)
}

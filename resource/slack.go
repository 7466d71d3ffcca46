package resource

import "math"

// Slack is the largest difference at which two sums count as equal. Floating point rounding loses
// that much: ten tenths fit into one.
const Slack = 1e-9

// Ceil rounds up. A number that exceeds a whole number by at most Slack is rounded down to it:
// 15.0000000001 becomes 15 machines. Zero has no sign: -0 would be printed.
func Ceil(x float64) float64 { return math.Ceil(x-Slack) + 0 }

// Floor rounds down. A number at most Slack below a whole number is rounded up to it.
func Floor(x float64) float64 { return math.Floor(x + Slack) }

package resource

import "math"

// Slack is how far two sums of amounts may differ and still be equal. Floating point
// loses that much by rounding: ten tenths fit into one.
const Slack = 1e-9

// Ceil rounds up. What exceeds a whole number by at most Slack is that number, so that
// 15.0000000001 buys 15 machines.
func Ceil(x float64) float64 { return math.Ceil(x - Slack) }

// Floor rounds down. What lacks at most Slack of a whole number is that number.
func Floor(x float64) float64 { return math.Floor(x + Slack) }

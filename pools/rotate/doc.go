// Package rotate decides which machines of a pool are replaced, and when the next one may be: [Step] is one tick.
//
// A [Rule] selects machines: those that were there when a roll was ordered, those that match the [Condition] of an order, or those that
// the pool file names by age, image, template or type. Their replacements are ordered first. A new machine must pass the health gate of
// the [Policy] before an old one leaves for it. Until the first one has passed, there is one at a time. If too many fail, the rotation
// halts until an operator resumes it. A rule that matches a new machine too is refused, because it would never end.
//
// The package is pure and may be used concurrently. It does not change or retain its arguments.
package rotate

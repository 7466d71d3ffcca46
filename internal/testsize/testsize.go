// Package testsize says how large the largest tests are. The race detector makes each
// step about ten times as expensive, so with it they try fewer cases of the same kinds.
// Without it, and with the build tag full, they try all cases.
package testsize

// Pick returns full where tests try all cases, and else small.
func Pick[T any](full, small T) T {
	if Full {
		return full
	}
	return small
}

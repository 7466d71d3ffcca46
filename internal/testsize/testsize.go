// Package testsize selects the size of large tests. The race detector makes each step about ten times slower, so with
// it tests try fewer cases. Without it, or with the build tag full, they try all cases.
package testsize

// Pick returns full if tests try all cases, else small.
func Pick[T any](full, small T) T {
	if Full {
		return full
	}
	return small
}

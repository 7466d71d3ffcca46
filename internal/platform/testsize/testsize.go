// Package testsize selects the size of large tests. The race detector makes each step about ten times slower, so with
// it tests try fewer cases. Without it, or with the build tag full, they try all cases.
//
// [Pick] returns one of two values. It is for tests only and may be called concurrently.
package testsize

// Pick returns full if tests try all cases, else small.
func Pick[T any](full, small T) T {
	if Full {
		return full
	}
	return small
}

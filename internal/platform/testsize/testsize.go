// Package testsize selects the size of large tests. The race detector makes each step about ten times slower, so with
// it tests try fewer cases. Without it, or with the build tag full, they try all cases.
//
// "make test" sets [FewerVariable] for the installations that it runs without it.
//
// [Pick] returns one of two values. It is for tests only and may be called concurrently.
package testsize

// FewerVariable names the variable that has a value where tests without the race detector try as few cases as with it.
const FewerVariable = "WEIR_TEST_FEWER"

// Pick returns full if tests try all cases, else small.
func Pick[T any](full, small T) T {
	if Full() {
		return full
	}
	return small
}

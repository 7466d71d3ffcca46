//go:build race && !full

package testsize

// Full reports whether tests try all cases.
func Full() bool { return false }

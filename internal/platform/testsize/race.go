//go:build race && !full

package testsize

// Full reports whether tests try all cases.
const Full = false

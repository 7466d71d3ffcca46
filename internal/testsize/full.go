//go:build !race || full

package testsize

// Full is whether tests try all cases.
const Full = true

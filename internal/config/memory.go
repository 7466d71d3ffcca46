//go:build !race

package config

// defaultMemory is the memory of a signal whose file says nothing.
const defaultMemory Size = 1 << 30

//go:build !race

package config

// defaultMemory is the memory of a signal without limits.memory, in bytes.
const defaultMemory Size = 1 << 30

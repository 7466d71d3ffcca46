//go:build race

package config

// defaultMemory is unlimited because a program with the race detector maps terabytes.
const defaultMemory Size = 0

//go:build race

package config

// defaultMemory is no limit: a program with the race detector maps terabytes.
const defaultMemory Size = 0

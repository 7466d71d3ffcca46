// Package builtin holds the signals that Weirkeeper ships. They are ordinary
// signals over package signals, without state: their values may be used
// concurrently.
package builtin

// Package scaffold writes the module of a new signal: a program that answers requests, a test that passes, and the
// next commands. "weir signal init" uses it.
//
//	files, err := scaffold.Write("requests", scaffold.Config{Name: "requests", SDKVersion: "v1.2.3"})
//
// A Go module requires one version of the SDK, which the Go command downloads, or uses a source tree by a replace
// line. A Python program needs only the standard library.
//
// All functions are safe for concurrent use.
package scaffold

// Package scaffold writes the module of a new signal: a program that answers, a
// test that passes, and the next commands. "weir signal init" is this package.
//
//	files, err := scaffold.Write("requests", scaffold.Config{Name: "requests", SDKVersion: "v1.2.3"})
//
// A Go module requires the SDK in one version, which the Go command fetches, or
// takes it from a source tree by a replace line. A Python program needs the
// standard library only, and no SDK.
//
// All functions may be called concurrently.
package scaffold

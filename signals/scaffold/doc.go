// Package scaffold writes the module of a new signal: a program that answers, a
// test that passes, and the next commands. "weir signal init" is this package.
//
//	files, err := scaffold.Write("requests", scaffold.Config{Name: "requests", Lang: scaffold.Go, SDK: tree})
//
// A Go module takes the SDK from a source tree by a replace line, and its other
// modules in the versions that the tree has: what was built once builds without a
// network. A Python program needs the standard library only, and no SDK.
//
// All functions may be called concurrently.
package scaffold

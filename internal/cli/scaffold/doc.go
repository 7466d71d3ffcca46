// Package scaffold writes the module of a new signal: a program that answers requests, a test that passes, and the
// next commands. "weir signal init" uses it.
//
//	files, err := scaffold.Write(ctx, "requests", scaffold.Config{Name: "requests", SDK: scaffold.SDK{Version: "v1.2.3"}})
//
// The module of a Go signal is complete: "go test ./..." needs no other command before it. It requires a released
// version of the SDK, which the Go command fetches now; or it uses a source tree by a replace line; or it contains the
// SDK, from an archive. A Python program needs only the standard library.
//
// All functions are safe for concurrent use.
package scaffold

// Package control is bootstrap's end of the go-plugin connection to a signal: its description, its health and its log.
//
// A [Session] belongs to one process and is created before the process starts. go-plugin defines variables of the
// process's environment and handles part of its output. The session does not start, watch or stop the process; package
// supervise does:
//
//	session, err := control.NewSession(control.Config{Log: log})
//	defer session.Close()
//	child, err := launcher.Start(ctx, session.Prepare(spec))
//	about, err := session.Describe(ctx)
//
// # The process is untrusted
//
// A handshake is one short line. Its address must be in a folder with mode 0700 that the session created. The
// connection uses gRPC without TLS: the folder restricts access. Messages, headers and texts are bounded, and every
// call has a deadline. Of the streams that a plugin can use, only standard output is served. The session reads the
// handshake and the log records itself, so invalid lines never reach go-plugin.
//
// # Concurrency
//
// All methods may be called concurrently. Close ends every other call.
package control

// Package control is bootstrap's end of the go-plugin that a signal is: what the
// process says of itself, whether it is well, and its log.
//
// A [Session] belongs to one process, and is made before that starts: go-plugin
// says what has to be in the process's environment, and takes part in its output.
// It does not start, watch or stop the process, which is the work of package
// supervise:
//
//	session, err := control.NewSession(control.Config{Log: log})
//	defer session.Close()
//	child, err := launcher.Start(ctx, session.Prepare(spec))
//	about, err := session.Describe(ctx)
//
// # The other end is hostile
//
// A handshake is one short line, whose address lies in a folder that the session
// made, with mode 0700. Over it gRPC is spoken, without TLS: the folder is the
// lock. Messages, headers and texts are bounded, every call has a deadline, and
// of what a plugin may ask of go-plugin's host only its standard output is
// served. Lines that go-plugin would choke on never reach it: the session reads
// handshake and log records itself.
//
// # Concurrency
//
// All methods may be called concurrently. Close ends every other call.
package control

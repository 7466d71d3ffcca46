// Package wire has the messages between an agent and the processes that order it: requests to start and stop copies,
// to cordon and fence a node and to read output, the responses, and the errors that they carry.
//
// [Client] sends the requests of a scheduler, of the owner of the machines and of commands. [Follower] reads the output
// of copies as it grows. [DecodeFacts] reads what a node reports about itself. The package agent answers. A Client may
// be used concurrently, a Follower by one goroutine.
package wire

// Package authcallout answers the servers' requests to verify a connection. It is the core of
// "weir auth".
//
// A server with auth_callout sends each connection that is not of its own users to
// $SYS.REQ.USER.AUTH. [Responder.Run] receives these requests in a queue group, so two
// instances share them and each can replace the other. For each request the responder
//
//  1. verifies that the request comes from a server and is for its issuer,
//  2. verifies that the connection's nkey signed the server's nonce,
//  3. gives the proof of the token to the verifier that the token names,
//  4. compares the proven identity with the claim,
//  5. answers with a user of the agent's account, whose permissions are those of that node.
//
// A user ends after about an hour. The server then disconnects the agent, which proves its
// identity again. A refusal is counted by its reason and logged at a bounded rate. The agent
// receives no reason: the server does not pass it on.
//
// Memory and time are bounded. Requests beyond the queue, and those that the server no longer
// waits for, are dropped and counted. Methods may be called concurrently.
package authcallout

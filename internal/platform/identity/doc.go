// Package identity defines how a machine proves its name to the bus, without a secret in
// its image.
//
// An agent has an nkey, which it creates at its first start. It connects with that nkey,
// the signature of the server's nonce, and a [Token]. The token has the agent's [Claim] and
// a proof of it. The server passes all of this to "weir auth", which checks the signature
// and gives the proof to the [Verifier] that the token names.
//
// A verifier is one folder below this package and one line of internal/config/verifiers. Its
// [Kind] describes it: the keys of its settings, the [Verifier] for "weir auth", and the
// [Prover] for the agent. A verifier returns an [Identity]. The responder compares it with
// the claim, so a verifier cannot forget that comparison.
//
// A refused proof is a [*Refusal] with a [Reason], which is counted. [Login] adds the agent's
// side to the options of a connection.
//
// Everything may be called concurrently.
package identity

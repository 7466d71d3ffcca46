// Package awsdocument proves identities by the instance identity document of EC2, which AWS
// signs. It needs no instance role and no request to AWS at a connection.
//
// The document has no nonce and no end, and each process of the machine can read it. So the
// verifier accepts it from one agent only: the first key that uses the document of an instance
// is bound to that instance durably. A first use requires that the instance is younger than 15
// minutes, by the document and by the provider of a pool. Later uses require the same key, and
// that the provider still has the instance. A document with another key is refused as stolen.
// An agent that has lost its key file cannot return: replace the machine.
//
// The signature is RSA with SHA-256. AWS publishes a certificate for each region; the operator
// gives them as files. This was tested with a certificate of the test's own and never with AWS.
//
// Everything may be called concurrently.
package awsdocument

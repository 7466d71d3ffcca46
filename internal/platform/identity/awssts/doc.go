// Package awssts proves identities by AWS: a machine signs a GetCallerIdentity request of STS
// with the credentials of its instance role, and "weir auth" sends it.
//
// The proof consists of the parts of that signed request that only the machine can make. The
// verifier builds the rest itself: method, address, body, and a header with the cluster and the
// agent's public nkey. So a proof is valid for one agent, for one of the configured STS
// endpoints, and for five minutes. STS answers with the account, the role, and the name of the
// session. For an instance role, EC2 sets that name to the id of the instance. The allowed
// account and role give the pools.
//
// Trust only roles that EC2 alone can assume: the caller of sts:AssumeRole chooses the session's
// name. This was tested with an endpoint of the test's own and never with AWS.
//
// Everything may be called concurrently.
package awssts

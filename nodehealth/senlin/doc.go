// Package senlin reads health policies of OpenStack Senlin (senlin.policy.health, in
// the forms of versions 1.0, 1.1 and 1.2) as policies of node health.
//
//	policy, losses, err := senlin.Convert(data)
//
// The policy has what the file says, and Senlin's default for each key that the file
// leaves out and that has another one here. It is valid, and observes: to let it act is
// a decision of its own. A [Loss] says what is not as it was: what Senlin promised and
// did not do, and does here; what it did and is not done here; what must be filled in.
//
// A file that cannot be read is refused with [strictyaml.Problems], each with its line: keys that
// Senlin does not have, values that it would not take, and what is no policy here.
//
// All functions may be used concurrently.
package senlin

// Package senlin converts health policies of OpenStack Senlin (senlin.policy.health, versions 1.0,
// 1.1 and 1.2) to policies of node health.
//
//	policy, losses, err := senlin.Convert(data)
//
// The policy has the values of the file. If the file lacks a key and Senlin's default differs, the
// policy has Senlin's default. The policy is valid, and in mode observe: setting mode act is a
// separate decision. A [Loss] is a difference: Senlin's documented behavior that only takes effect
// here, behavior that has no counterpart here, or a value that must be filled in.
//
// An invalid file is rejected with [strictyaml.Problems], each with its line: keys that Senlin does
// not have, values that it does not accept, and policies that are invalid here.
//
// All functions may be used concurrently.
package senlin

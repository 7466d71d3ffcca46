// Package builtin holds the signals that Weirkeeper ships: [Calendar], [Default], [InstanceCount] and [Pending]. [Named] returns a
// signal by its name in configuration and on the command line. They are ordinary signals of package signals without
// state, so their values may be used concurrently.
//
// All but the calendar request cpus, mem and disk, and have no opinion on gpus. A kind with an empty window is unknown, and they have
// no opinion on it. If all kinds are unknown, they have no opinion at all. Each answer has an explanation.
package builtin

// Package builtin holds the signals that Weirkeeper ships: [Calendar], [Default], [Forecast], [InstanceCount] and [Pending].
// [Named] returns a signal by its name in configuration and on the command line, and [Check] checks its parameters. They are
// ordinary signals of package signals whose answers do not depend on earlier ones. They may be used concurrently.
//
// Calendar and Forecast raise a request. The others request cpus, mem and disk, and have no opinion on gpus. A kind with an empty window is unknown, and they have
// no opinion on it. If all kinds are unknown, they have no opinion at all. Each answer has an explanation.
package builtin

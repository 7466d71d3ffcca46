// Package builtin holds the signals that Weirkeeper ships: [Default],
// [InstanceCount] and [Pending]; [Named] returns one by the name that
// configuration and command line use. They are ordinary signals over package
// signals, without state: their values may be used concurrently.
//
// All of them speak for cpus, mem and disk and have no opinion on gpus. A kind
// whose window is empty is unknown: they have no opinion on it, and if all are
// unknown none at all. With each answer they explain how it came about.
package builtin

// Package resource is the vocabulary of quantities: what a machine offers, what a task uses, what a
// signal requests.
//
// There are four kinds: cpus (shares of a core), mem and disk (megabytes) and gpus (devices). A
// [Vector] has a value for each kind. A [Request] may omit any kind. An omitted kind is not zero:
// zero requests none, omitted has no opinion.
//
// All values are plain, comparable and copied by assignment, so they may be used concurrently.
package resource

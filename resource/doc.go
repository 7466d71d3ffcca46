// Package resource is the vocabulary of quantities: what a machine offers, what
// a task uses, what a signal asks for.
//
// There are four kinds: cpus (shares of a core), mem and disk (megabytes) and
// gpus (devices). A [Vector] knows all four. A [Request] may leave any of them
// out, and a kind that is left out is not zero: zero asks for none, absent has
// no opinion.
//
// All values are plain and comparable; nothing here may be changed behind the
// back of another holder, so everything may be used concurrently.
package resource

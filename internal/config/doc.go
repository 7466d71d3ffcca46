// Package config reads the files of an operator: the service file weir.yaml and
// one pool file for each pool, <cluster>/<pool>.yaml, below one folder.
//
// Decoding is strict. A key that is not known, a value of the wrong type or out
// of its bounds is a [Problem] with file, line, key and what is allowed, and all
// of a file's problems are told at once. A file is one YAML document of at most
// 1 MiB, in which each value stands where it is used: anchors, aliases, merge
// keys and tags are refused.
//
// Values are plain; they may be read concurrently.
package config

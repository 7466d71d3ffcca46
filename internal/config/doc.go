// Package config reads the files of an operator: the service file weir.yaml and
// one pool file for each pool, <cluster>/<pool>.yaml, below one folder.
//
// Decoding is strict. An unknown key, a value of the wrong type or a value out of bounds is a [Problem]: file, line,
// key and valid values. All problems of a file are reported at once. A file is one YAML document of at most 1 MiB.
// Anchors, aliases, merge keys and tags are refused.
//
// Values are plain data and safe for concurrent reads.
package config

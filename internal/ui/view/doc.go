// Package view reads pools, nodes and applications over the bus for people: the objects that the commands print with
// "--output json", and that the HTTP API serves.
//
// [Fleet] reads the pools of a cluster, and [Pool] reads one. [Orders] writes the orders of an operator. Reads change
// nothing. A part that does not respond adds a warning, or its value is missing. All types may be used concurrently.
package view

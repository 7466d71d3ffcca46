// Package api has every type that crosses a process or is printed as JSON: records and summaries of ticks, the status
// of a pool, nodes and applications, orders, findings and events.
//
// Loops fill these types. Commands, the HTTP API, pages, the history and schedulers read them, so none of these imports
// a loop. A type is a plain struct: its fields have JSON keys and a comment with unit and range. Its methods print it or
// answer questions about one value, and never decide. The JSON keys are stored in streams and buckets, so a changed key
// needs a new schema. All types are values. They may be read concurrently.
package api

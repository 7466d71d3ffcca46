// Package lineprotocol takes the metrics of applications over HTTP as InfluxDB
// does, so that an agent or library that writes to InfluxDB 2 writes to Weirkeeper
// by another address:
//
//	POST /api/v2/write?bucket=web&precision=s
//	Authorization: Token TOKEN
//
//	requests,zone=a value=120,errors=3i 1700000000
//
// A [Handler] decodes the InfluxDB line protocol, and writes the samples to a
// store. What of a line becomes what:
//
//   - the app: the tag "app", or else the query parameter bucket
//   - the metric's name: the measurement for the field "value", MEASUREMENT_FIELD
//     for any other; it is stored as "APP,NAME"
//   - the dimensions: all other tags
//   - the value: floats and integers as they are, true is 1, false is 0; strings,
//     NaN and infinities are refused
//   - the time: the timestamp in the precision of the query parameter (ns, which is
//     the default, us, ms, s), or else the time of the request
//
// The parameter org is not looked at. A body may be gzip. It is written whole, and
// answered with 204, or not at all: the answer to a bad line is 400 and
// {"code", "message", "line"}. Codes are those of InfluxDB: see [Code].
//
// # Concurrency
//
// A Handler may be used concurrently; it holds so many bodies at a time and tells
// the others to come again. It listens nowhere: on which address, and behind what
// encryption, is its server's business.
package lineprotocol

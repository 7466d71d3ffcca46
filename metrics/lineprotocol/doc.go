// Package lineprotocol accepts metrics of applications over HTTP like InfluxDB 2, so
// an agent or library for InfluxDB 2 writes to Weirkeeper with another address:
//
//	POST /api/v2/write?bucket=web&precision=s
//	Authorization: Token TOKEN
//
//	requests,zone=a value=120,errors=3i 1700000000
//
// A [Handler] decodes the InfluxDB line protocol and writes the samples to a store. It
// converts a line as follows:
//
//   - app: the tag "app", or else the query parameter bucket
//   - name of the metric: the measurement for the field "value", MEASUREMENT_FIELD
//     for any other field; it is stored as "APP,NAME"
//   - dimensions: all other tags
//   - value: floats and integers unchanged, true is 1, false is 0; strings, NaN and
//     infinities are refused
//   - time: the timestamp in the precision of the query parameter (ns by default,
//     us, ms, s), or else the time of the request
//
// The parameter org is ignored. A body may be gzip. The response is 204 if the whole body
// is written. For an invalid line it is 400 with {"code", "message", "line"}, and nothing is
// written. Codes are those of InfluxDB.
//
// # Concurrency
//
// A Handler is safe for concurrent use. It processes a limited number of bodies at the
// same time and answers 429 to further requests. Its server chooses address and
// encryption.
package lineprotocol

// Package influx is a metrics store in an InfluxDB. A [Store] writes line protocol over
// the API of InfluxDB 2, which 1.8 and 3 have too. It reads windows with InfluxQL over
// that of InfluxDB 1, which 2 and 3 have too. Of InfluxDB 1.8 the organization is empty,
// the bucket is DATABASE/RETENTIONPOLICY, and the token is USER:PASSWORD. InfluxDB 2
// maps the name of a bucket to a database and a retention policy by itself. The tests use
// 1.8.10; 2 and 3 could not be had for them.
//
// # Layout
//
// A metric is a field, its dimensions are tags:
//
//	system_metrics,cluster=c,pool=p cpus_allocated=12.5 1700000000000
//	web,zone=a requests=120,errors=3i 1700000000000000000
//
// The application metric "APP,NAME" has the measurement APP and the field NAME. So
// lines that applications write themselves, such as the second one, are the metrics
// "web,requests" and "web,errors". Floats and integers are values, true is 1, false
// is 0. A field of strings is not a metric: a regular expression skips it, and a
// query by its name is an error. App metrics without an application or without a
// name have the measurement "app_metrics". Metrics of the other types have the
// measurement of their type ("system_metrics", "metadata", "instance_counts").
// Measurements with a comma are ignored.
//
// Some InfluxDB versions lose backslashes, control characters and unprintable
// characters. Each byte of these is written as ␛ (U+241B) and two hexadecimal digits.
// So is the first character of a name that InfluxDB reserves ("time", and names that
// begin with "_" or "#"), and of an application with the name of a type. Names that
// other writers wrote without this are found too, except for the keys of tags.
//
// A dimension with an empty value is ignored in writes and queries. Times are stored to
// the millisecond. Of several values of one series in one millisecond InfluxDB stores the
// last. A sample older than the bucket's retention is dropped. A sample more than
// ten minutes ahead of the clock is refused, because its clock or its unit
// of time is probably wrong.
//
// # Errors
//
// A window is complete, or it is an error. A response is one JSON object, so a truncated
// response is never a shorter window. These are errors of the window too: an error inside
// a response, a value that is not finite, a time out of range, and a response that
// exceeds the bounds of [Config].
//
// Temporary errors are retried, up to four attempts within Config.Timeout: a broken
// connection, and a response 429 or 5xx that is not about the bucket or the
// token. Writing a sample twice is harmless.
//
// # Regular expressions
//
// A query with a regular expression first requests the series with points in the
// window and matches their Keys here. Then it requests the points of the matching
// series. A prefix that contains an application ("APP,") restricts the first request
// to its measurement.
//
// # Concurrency
//
// A Store is safe for concurrent use. It does not cache windows; put a windows.Cache
// in front of it.
package influx

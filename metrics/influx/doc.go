// Package influx is the metrics store in an InfluxDB: a [Store] writes line
// protocol and reads windows with Flux, both over the API of InfluxDB 2, which
// InfluxDB 1.8 has too (with flux-enabled=true; its organization is empty, its
// bucket DATABASE/RETENTIONPOLICY, its token USER:PASSWORD). It is tested on
// 1.8.10; InfluxDB 2 could not be built for tests.
//
// # Layout
//
// A metric is a field, its dimensions are tags:
//
//	system_metrics,cluster=c,pool=p cpus_allocated=12.5 1700000000000
//	web,zone=a requests=120,errors=3i 1700000000000000000
//
// The measurement of an application's metric "APP,NAME" is APP, its field NAME. So
// what applications write to the bucket themselves, as in the second line, are
// metrics: "web,requests" and "web,errors". Floats and integers are values, true is
// 1, false is 0. A field of strings is no metric: it is passed over by a regular
// expression, and an error when it is asked for by its name. Names of app metrics
// that have no application or no name are in the measurement "app_metrics", the
// metrics of the other types in those of their types ("system_metrics", "metadata",
// "instance_counts"); measurements with a comma are nobody's.
//
// Characters that not every InfluxDB keeps (backslashes, control characters, what
// is not printable) are written as ␛ (U+241B) and two hexadecimal digits for each
// byte, and so is the first character of a name that InfluxDB reserves ("time", and
// what begins with "_" or "#") and of an application that is called as a type is.
// What others wrote is found in their own spelling as well, but for the keys of tags.
//
// A dimension whose value is empty says nothing: it is left out of what is written
// and of what is asked. Times are kept to the millisecond. Of several values of
// one series in one millisecond InfluxDB keeps the last. A sample that is older than
// the bucket's retention is dropped, one that is more than [metrics.FutureWindow] ahead of
// the clock refused, as it would be of a clock or a unit of time that is wrong.
//
// # Errors
//
// A window is whole, or it is an error. Every query ends with a line that says so,
// so that an answer that was cut off, by whomever and however politely, is never
// taken for a shorter window; an error that comes in the middle of an answer is one
// of the window, and so are a value that is not finite, a time that was not asked
// for, and an answer that is larger than the bounds of [Config].
//
// What passes (a connection that breaks, an answer of 429 or 5xx that is not about
// the bucket or the token) is tried again, four times in all and within
// Config.Timeout. To write a sample twice does no harm.
//
// # Regular expressions
//
// A query with a regular expression makes two kinds of requests: one for the series
// that have points in the window, whose Keys are matched here, and some for the
// points of those that match. A prefix that names an application ("APP,") keeps the
// first to its measurement.
//
// # Concurrency
//
// A Store may be used concurrently. It keeps nothing of what was read; put a
// windows.Cache in front of it.
package influx

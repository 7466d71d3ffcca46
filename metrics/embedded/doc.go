// Package embedded is the metrics store of one machine over NATS: one process
// owns the database, the others read it and write to it.
//
// The owner opens the database (package tsdbstore) and calls [Serve]; every other
// process of the cluster uses a [Client], without the code of the database. Both
// are a metrics.Store and may be used concurrently.
//
// # What is kept
//
// A series is the labels __name__ (the metric's name), weir_type, and one "d."
// plus NAME for each dimension. A dimension whose value is empty says nothing:
// it is left out of what is written and of what is asked. Times are kept to the
// millisecond. Of several values of one series in one millisecond one is kept.
// A sample that comes late is put in its place. One that is older than the retention is
// dropped.
// One that is more than [metrics.FutureWindow] ahead of the clock is refused, because
// it would make everything that is written after it too old.
//
// A regular expression is tried on the Key of every application metric (with the
// query's prefix and dimensions, if it has any) in the blocks of two hours and
// more that the window touches, and metrics.MaxMatches bounds those it finds.
//
// # The wire
//
// Requests and answers on the subjects weir.CLUSTER.metrics.write and
// weir.CLUSTER.metrics.window. Requests are JSON, see writeRequest and
// windowRequest. A write is answered with {} once the samples are kept, or with
// {"dropped": n} if n of them were dropped; both are answered with
// {"error": {"code", "message"}} when they fail.
//
// A window is answered with one page of at most maxPage bytes or half of the
// bus's payload limit, whichever is less (a page may exceed that by the points
// of one second and the dimensions of one series):
//
//	byte 0x02        version; an error starts with '{' instead
//	byte             1: more follows, ask again with the cursor; 0: the end
//	cursor           only if more follows: name (string), dimensions, second (varint)
//	uvarint          number of series; for each of them:
//	  string           its name
//	  dimensions       their number (uvarint); of each the name and value (strings)
//	  uvarint          number of points, at least 1
//	  varint           unix second of the first point
//	  uvarint ...      seconds between each point and the one before
//	  8 bytes ...      values, IEEE 754, little endian
//
// A string is its length as uvarint and its bytes; varint and uvarint are those
// of encoding/binary. A cursor says: continue with that second of the series of
// that name and those dimensions. The server keeps nothing between two pages. The
// series of a window are in order of their metrics.Identity.
package embedded

// Package embedded is a metrics store over NATS. One process owns the database. Other
// processes read and write over the bus.
//
// The owner opens the database (package tsdbstore), and calls [Listen] and [Server.Serve]. Every other
// process of the cluster uses a [Client], without the code of the database. Both
// are a metrics.Store and safe for concurrent use.
//
// # Stored data
//
// A series has the labels __name__ (the metric's name) and weir_type, and a label "d."
// plus NAME for each dimension. A dimension with an empty value is ignored in writes
// and queries. Times are stored to the millisecond. Of several values of one series in
// one millisecond the last one counts. The store keeps the first one and up to four
// rewrites, as samples of series with the label weir_rewrite, which count against the
// bounds of an application. Late samples are inserted. Samples older than the
// retention are dropped. A sample more than ten minutes ahead of the
// clock is refused, because it would make all later samples too old.
//
// A regular expression is matched with the Key of every application metric in the
// blocks of two hours and more that the window touches. The query's prefix and
// dimensions restrict the metrics. metrics.MaxMatches bounds the matches.
//
// # The wire
//
// Requests on the subjects weir.CLUSTER.metrics.write.WRITER and weir.CLUSTER.metrics.window
// are JSON; see writeRequest and windowRequest. WRITER is a store.Writer. A write with a series of
// another writer is refused as a whole. The response to a write is {} after
// the samples are stored, or {"dropped": n} if n of them were dropped. The response
// to a failed request is {"error": {"code", "message"}}.
//
// The response to a window request is one page of at most maxPage bytes or half of the
// bus's payload limit, whichever is less. A page may exceed that by the points
// of one second and the dimensions of one series:
//
//	byte 0x02        version; an error starts with '{' instead
//	byte             1: more follows, repeat the request with the cursor; 0: the end
//	cursor           only if more follows: name (string), dimensions, second (varint)
//	uvarint          number of series; for each series:
//	  string           its name
//	  dimensions       their number (uvarint), then name and value (strings) of each
//	  uvarint          number of points, at least 1
//	  varint           unix second of the first point
//	  uvarint ...      seconds from the previous point
//	  8 bytes ...      values, IEEE 754, little endian
//
// A string is its length as uvarint and its bytes; varint and uvarint are those
// of encoding/binary. A cursor is the second, and the series by name and dimensions,
// at which the window continues. The server has no state between two pages. The
// series of a window are in order of their metrics.Identity.
package embedded

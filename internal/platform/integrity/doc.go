// Package integrity detects lost or older data in a JetStream key-value bucket: a damaged file, a truncated stream, a
// restored copy.
//
//	g, err := integrity.Open(integrity.Config{JS: js, Bucket: "weir-apps_c", Reader: integrity.AppsReader("c"), Folder: dir, By: me, Log: log})
//	contents, err := g.Read(ctx)        // at each start and after each reconnect
//	g.IsUnknown("web"), g.Missing()     // keys whose value is unknown
//	g.StoreRevision("web", revision, false) // a change that was received live
//	g.Publish(ctx)                      // publishes the alarm, before any action
//	accepted, err := g.Accepted(ctx)    // an operator accepts the bucket as it is
//
// # The file of a reader
//
// Each reader stores the revision of each key that it has read, in its own file outside
// the bucket: FOLDER/BUCKET.jsonl. So data and file are lost together only if the reader's
// machine is restored together with the server.
//
// The file is a log. Each line is the CRC-32C of its JSON in hexadecimal, a space, and the
// JSON. A change adds one line. Lines with a wrong checksum are ignored. The file is not
// synced to disk: after a power failure it may have fewer revisions, never newer ones.
//
// # The rules
//
// The revision of a key only grows. A key disappears only by a delete marker. The last
// sequence of the bucket only grows. A bucket that was created again lacks all earlier
// keys. Config.Erased names the keys whose markers end after an hour. If such a key is
// missing, it is lost if the reader has read it within that hour. Otherwise its marker may
// have ended. A broken rule is a [Problem]: the key is unknown until it is written again while the
// reader watches, or until an operator accepts the bucket.
//
// # Alarms and acceptances
//
// A daemon writes its alarm, and operators write the acceptance, in the bucket of the daemon:
//
//	alarm          an Alarm: the reader's problems
//	accept.damage  an Acceptance: an operator accepts the problems of that digest
//
// # Concurrency
//
// A Guard and all functions are safe for concurrent use. Two Guards must not share a file.
package integrity

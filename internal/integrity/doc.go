// Package integrity detects that a key-value bucket of JetStream lost data, or holds older
// data than before: a damaged file, a truncated stream, a copy that was restored.
//
//	g, err := integrity.Open(integrity.Config{JS: js, Cluster: c, Bucket: "weir_c_apps", Reader: "apps", Folder: dir, By: me, Log: log})
//	contents, err := g.Read(ctx)        // at each start and after each reconnect
//	g.Doubted("web"), g.Missing()       // keys whose value is unknown
//	g.Note("web", revision, false)      // a change that was seen as it happened
//	g.Publish(ctx)                      // the alarm, before anything is done
//	accepted, err := g.Accepted(ctx)    // an operator accepts the bucket as it is
//
// # What is kept, and where
//
// Each reader keeps the revision of each key that it read, in a file of its own beside the
// bucket: FOLDER/READER.jsonl. So data and proof are lost together only if the machine
// of the reader is set back together with the server. The file is a log: each line is the
// CRC-32C of its JSON in hexadecimal, a space, and the JSON. A change adds one line, so the
// work is in proportion to what changed. Lines whose sum is wrong count for nothing. The
// file is not synced to the disk: after a power failure it may know less, never more, than
// the reader saw.
//
// # The rules
//
// A revision may only grow. A key may vanish only by a delete marker. The last sequence of the
// bucket may only grow. A bucket that was created again is empty of what it had. What
// breaks a rule is a [Problem]: the key is unknown until it is written again while the reader
// watches, or until an operator accepts the bucket.
//
// # Alarms and acceptances
//
// The bucket weir_CLUSTER has
//
//	alarm.READER   an Alarm: what is wrong, as the reader reports it
//	accept.READER  an Acceptance: an operator accepts exactly the problems of that digest
//
// # Concurrency
//
// A Guard and all functions are safe for concurrent use. Two Guards must not have the same file.
package integrity

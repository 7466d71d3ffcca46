// Package kvbucket reads and writes single keys of key-value buckets.
//
//	b := kvbucket.New(js, name) // sends no request
//	e, err := b.Get(ctx, "lease")
//	revision, err := b.Update(ctx, "lease", value, e.Revision)
//
// Package streams creates the buckets, with the settings of [Settings].
//
// # A bucket that one header cannot empty
//
// A bucket is the stream KV_NAME with one message for each key. The server refuses a roll-up, a
// purge and the deletion of a message. So a client with permission for one key cannot remove
// another key. A key is removed by a delete marker. [Bucket.Erase] writes a marker that the server
// drops after [MarkerTTL].
//
// # Missing, without quorum, without permission
//
// A failed write does not show which of these is the cause. [Check] requests the stream's info and
// returns [ErrMissing], [ErrNoQuorum], [ErrNoPermission] or [ErrNoAnswer]. No daemon creates a
// bucket.
//
// # Reads and writes
//
// Any replica answers Get, so its value may be older than the last acknowledged write. Only an
// acknowledged write proves that an expected revision is the newest. A write without an answer has
// the error [ErrUnknown]: the server may apply it later.
//
// # Concurrency
//
// A Bucket has no state of its own. All functions are safe for concurrent use. Every call ends with
// its context.
package kvbucket

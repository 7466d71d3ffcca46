// Package bulkapi is the expected state from a Cloud Controller's bulk API over HTTP. It reads
// all rows every minute, and soon after a droplet.updated message.
//
//	source, err := bulkapi.New(bulkapi.Config{Host: "api.example.com", Pool: "default"}, credentials, log)
//	err = source.Watch(ctx, enqueue)
//
// # A pass
//
//	GET HOST/bulk/apps?batch_size=500&bulk_token={}   (basic auth)
//	{"results": {"APP": {"id": "APP", "instances": 2, "state": "STARTED", "memory": 256,
//	   "package_state": "STAGED", "updated_at": "2012-11-16 00:00:00 UTC", "version": "v1"}, ...},
//	 "bulk_token": {"id": 500}}
//
// Each request has the unchanged token of the previous answer. A pass ends with the first
// answer whose results are empty. The source collects the rows until the pass is complete, and
// then sends them in slices. A failed pass sends only the failure, because its rows may be
// incomplete.
//
// An answer without the key results is an error and not the end of a pass: it does not come
// from a bulk API.
//
// # Rows
//
// A row must have instances, state, package_state, version and updated_at. Otherwise the app
// is reported as unreadable. Ids and versions may be strings or numbers. A time is text in one
// of the forms that Cloud Controllers used, or unix seconds. [Config] adds what a row lacks:
// its pool, cpus and disk.
//
// # Errors
//
// After a broken connection, a truncated page, 429 or 5xx, the request is repeated, up to ten
// times in a row. The pause grows, or is the one that the answer requests. Then the pass
// fails, and credentials are requested again. 401 and 403 request new credentials at once and
// restart the pass, once. Any other error fails the pass. Redirects are not followed, so that
// no other server receives the password.
//
// # Concurrency
//
// Watch may be called once at a time; Refresh and Users at any time.
package bulkapi

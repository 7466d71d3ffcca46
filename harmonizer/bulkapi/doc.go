// Package bulkapi is the expected state as a Cloud Controller tells it over HTTP:
// its bulk API, read whole every minute, and soon after droplet.updated was heard.
//
//	source, err := bulkapi.New(bulkapi.Config{Host: "api.example.com", Pool: "default"}, askOnTheBus, log)
//	err = source.Watch(ctx, h.Tell)
//
// # A pass
//
//	GET HOST/bulk/apps?batch_size=500&bulk_token={}   (basic auth)
//	{"results": {"APP": {"id": "APP", "instances": 2, "state": "STARTED", "memory": 256,
//	   "package_state": "STAGED", "updated_at": "2012-11-16 00:00:00 UTC", "version": "v1"}, ...},
//	 "bulk_token": {"id": 500}}
//
// The token of each answer is sent with the next request, as it came; a pass ends
// with the first answer whose results are empty. Its rows are kept until it is
// whole, and then told in slices. A pass that breaks off tells only that it did:
// neither the rows it had, nor those it had not, mean anything.
//
// An answer without results is not taken for the end of a pass, as it once was:
// what answers so is no bulk API.
//
// # Rows
//
// A row has to have its instances, state, package_state, version and updated_at; an
// app whose row cannot be read is told to be there, and unreadable. Ids and versions
// may be strings or numbers, a time is text in one of the forms that Cloud
// Controllers wrote, or unix seconds. What a row does not say (its pool, cpus and
// disk) is in [Config].
//
// # Errors
//
// A connection that breaks, a page that is cut off, 429 and 5xx are tried again, ten
// times in a row, with growing pauses or after as long as the answer asks for; then
// the pass fails, and the credentials are asked for anew. 401 and 403 do that at
// once, and begin the pass anew, once. Anything else fails the pass. Redirects are
// never followed, so that the password is seen by nobody else.
//
// # Concurrency
//
// Watch may be called once at a time; Refresh and Users at any time.
package bulkapi

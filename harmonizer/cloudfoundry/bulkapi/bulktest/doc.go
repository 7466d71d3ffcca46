// Package bulktest is a Cloud Controller's bulk API for tests. It has rows, and pages as cc_ng
// does: by the number of a row, which grows with each app. It can fail in several ways while
// it runs.
//
//	api := bulktest.New("bulk", "secret")
//	api.Set(bulktest.Row{ID: "web", Instances: 2})
//	server := httptest.NewServer(api)
//	api.Break(bulktest.Trouble{Fault: bulktest.Status, Times: 2})
//	err := api.Await(ctx, 3) // three requests were received
//	api.ClearFault()
//
// All methods may be called concurrently. A held request ends with ClearFault, or when its
// client closes the connection.
package bulktest

// Package bulktest is a Cloud Controller's bulk API for tests: it holds rows, pages
// as cc_ng does (by the number of a row, which grows from app to app), and can be
// put into trouble while it runs.
//
//	api := bulktest.New("bulk", "secret")
//	api.Set(bulktest.Row{ID: "web", Instances: 2})
//	server := httptest.NewServer(api)
//	api.Break(bulktest.Trouble{Fault: bulktest.Status, Times: 2})
//	err := api.Await(ctx, 3) // three requests came in
//	api.Mend()
//
// All methods may be used concurrently. A request that is held ends with Mend, or
// when its client goes away.
package bulktest

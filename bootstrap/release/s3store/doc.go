// Package s3store is release.Bucket over S3, by aws-sdk-go-v2: at AWS, or at any
// endpoint that knows conditional writes (If-None-Match).
//
//	bucket, err := s3store.Open(ctx, s3store.Config{Bucket: "weir-signals", Region: "us-west-2"})
//
// Credentials come from the SDK's usual chain: environment, shared files, web
// identity, container, instance. Where there is no instance the last step finds
// nobody, so the chain as a whole has five seconds. If who gives credentials
// cannot be reached, answers 5xx or throttles, that is release.ErrUnavailable, as
// if the bucket were away; release.ErrDenied is that there are none for us. A
// machine without credentials that is no instance, and is not told so by
// AWS_EC2_METADATA_DISABLED=true, cannot tell the two apart: ErrUnavailable.
//
// The bucket makes one attempt for each call; who calls it tries again. A Bucket
// may be used concurrently.
package s3store

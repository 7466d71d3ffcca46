// Package s3store implements release.Bucket for S3 with aws-sdk-go-v2: at AWS, or at any endpoint that supports
// conditional writes (If-None-Match).
//
//	bucket, err := s3store.Open(ctx, s3store.Config{Bucket: "weir-signals", Region: "us-west-2"})
//
// Credentials come from the SDK's default chain: environment, shared files, web identity, container, instance. The
// whole chain has five seconds, because the last step gets no response on a machine that is not an instance. If a
// source of credentials is unreachable, responds with 5xx or throttles, the error is release.ErrUnavailable, as for an
// unreachable bucket. If it has no credentials for this process, the error is release.ErrDenied. On a machine that is
// not an instance, the two cases look the same, so the error is ErrUnavailable. AWS_EC2_METADATA_DISABLED=true avoids
// that.
//
// Each call makes one attempt; callers retry. A Bucket may be used concurrently.
package s3store

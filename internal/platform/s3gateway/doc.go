// Package s3gateway runs an S3 server in this process, for `weir up` and for tests. [Run] serves the buckets of a
// folder on a loopback address until its context ends. It is versitygw over files, so checksums, conditional writes
// and credentials behave as on AWS. One difference: an unknown access key returns 404 XAdminUserNotFound, not 403.
//
// versitygw has two limits:
//   - one gateway per process; a second Run returns errRunning.
//   - while it runs, the process's working directory is the gateway's folder. Make every relative path absolute
//     before calling Run. Run restores the former directory when it returns.
//
// Package s3test avoids both limits: it runs the gateway in a child process.
package s3gateway

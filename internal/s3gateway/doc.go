// Package s3gateway is an S3 server in this process, for `weir up` and for
// tests: [Run] serves the buckets of a folder on a loopback address until its
// context ends. It is versitygw's gateway over files, so checksums, conditional
// writes and credentials behave as at AWS, with one difference to know: an
// unknown access key is answered 404 XAdminUserNotFound, not 403.
//
// Two limits come from versitygw:
//   - one gateway per process; a second Run returns [ErrRunning].
//   - while it runs, the process's working directory is the gateway's data
//     folder. Make every relative path absolute before calling Run. The former
//     directory is restored when Run returns.
//
// A test that cannot live with these takes package s3test, which runs the
// gateway in a child process.
package s3gateway

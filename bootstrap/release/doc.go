// Package release is what a published version of a signal is, and how it comes
// to and from a bucket: [Publish], [List], [ReadManifest], and a [Cache] that
// fetches.
//
// A [Ref] on a [Platform] is two objects below the bucket's prefix:
//
//	NAMESPACE/NAME/VERSION/OS-ARCH/manifest.json
//	NAMESPACE/NAME/VERSION/OS-ARCH/sha256-DIGEST.tar.gz
//
// A slash in VERSION (a branch may have one) is written ~. The archive is
// written first, under its digest, and the manifest last, each only if it is
// not there: so a release exists from the moment of its manifest, and is never
// changed.
//
// Everything that comes from the bucket is checked before it is kept: sizes
// against the manifest and the limits below, digests of the archive and of
// every file in it, paths, and that nothing is a link. What a check refuses
// leaves no trace in the cache. A cache folder holds
//
//	sha256-DIGEST/         the files of one archive, put in place by a rename
//	refs/SOURCE/...        the manifest of each release fetched from a bucket
//	tmp-*, lock            work in progress; what a dead process left is removed
//
// Nothing is executed from a path: [Installed.Open] gives the file that it has
// hashed, as an open descriptor.
//
// All functions may be called concurrently, and a cache folder may be shared by
// any number of [Cache] values and processes.
package release

// Package release is what a published version of a signal is, and how it comes
// to and from a bucket: [Publish], [List], [Show], [Verify], [Yank], and a
// [Cache] that fetches.
//
// A [Ref] on a [Platform] is up to four objects below the bucket's prefix:
//
//	NAMESPACE/NAME/VERSION/OS-ARCH/sha256-DIGEST.tar.gz
//	NAMESPACE/NAME/VERSION/OS-ARCH/manifest.json.minisig
//	NAMESPACE/NAME/VERSION/OS-ARCH/manifest.json
//	NAMESPACE/NAME/VERSION/OS-ARCH/yanked.json
//
// A slash in VERSION (a branch may have one) is written ~. The archive is
// written first, under its digest, then the signature, and the manifest last,
// each only if it is not there: so a release exists from the moment of its
// manifest, is signed from that moment, and is never changed. What can be added
// later is a signature, by publishing the same files again with a key, and
// yanked.json {why, at}, which ends it.
//
// # Signatures
//
// A signature is minisign's, over the bytes of manifest.json, which has the
// digest of all else; minisign -Vm manifest.json -p KEY.pub checks it too. Its
// trusted comment is "release REF for PLATFORM, created TIME", and is compared.
// [Trust] says what is demanded:
//
//	                     not required        required
//	not signed           fetched             ErrUnsigned
//	by a trusted key     fetched             fetched
//	by another key       ErrUntrusted        ErrUntrusted
//	damaged, other bytes ErrBadSignature     ErrBadSignature
//
// Without trusted keys nothing can be compared, and signatures are not looked
// at. With some, a release that claims to be somebody else's is refused even
// where it could do without a signature: it is a mistake or worse, and removing
// the claim is not ours to do. The cache remembers manifest and signature byte
// for byte, and compares them again each time, with the bucket away too.
//
// # What comes from a bucket
//
// is checked before it is kept: sizes against the manifest and the limits below,
// digests of the archive and of every file in it, paths, and that nothing is a
// link. What a check refuses leaves no trace in the cache. A cache folder holds
//
//	sha256-DIGEST/         the files of one archive, put in place by a rename
//	refs/SOURCE/...        what a bucket said of each release fetched from it
//	refs/plans/OWNER.json  what a pool runs: Use
//	part-DIGEST            a download; another process continues it for a day
//	tmp-*, lock            work in progress; what a dead process left is removed
//
// Nothing is executed from a path: [Installed.Open] gives the file that it has
// hashed, as an open descriptor. Its fellows, which it finds by
// their paths, are what they were when [Installed.Verify] has just said so.
//
// The lock is held for moments. Who is stopped while it holds it keeps others
// waiting until their contexts end, a minute at most; the error names the file.
//
// # The layout of Clusterman
//
// [Cache.FetchClusterman] reads CODENAME/clusterman_signals_VERSION.tar.gz, a
// virtual environment with all signals of a version, as it is. There is no
// manifest: what is first seen of a version is pinned, and anything else later
// is ErrChanged. Links are needed there, and may lead to what is inside; the
// only one that may lead out is that of prodenv/bin/python, or what it leads to
// in its folder, to an absolute path whose last part is python, with a version
// or without.
//
// All functions may be called concurrently, and a cache folder may be shared by
// any number of [Cache] values and processes.
package release

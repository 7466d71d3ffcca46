// Package release defines published versions of signals and moves them to and from a bucket: [Publish], [List], [Show],
// [Verify], [Yank], and a [Cache] that fetches.
//
// A [Ref] on a [Platform] consists of up to four objects below the bucket's prefix:
//
//	NAMESPACE/NAME/VERSION/OS-ARCH/sha256-DIGEST.tar.gz
//	NAMESPACE/NAME/VERSION/OS-ARCH/manifest.json.minisig
//	NAMESPACE/NAME/VERSION/OS-ARCH/manifest.json
//	NAMESPACE/NAME/VERSION/OS-ARCH/yanked.json
//
// A slash in VERSION (as in a branch name) is written as ~. Publish writes the archive first, under its digest, then
// the signature, and the manifest last. It writes each object only if it does not exist. So a release exists when its
// manifest exists, is signed from that moment, and never changes. Two objects can be added later. Publishing the same
// files again with a key adds a signature. yanked.json {why, at} withdraws the release.
//
// # Signatures
//
// A signature is a minisign signature of the bytes of manifest.json, which contains all other digests. minisign -Vm
// manifest.json -p KEY.pub verifies it too. Its trusted comment is "release REF for PLATFORM, created TIME", and is
// compared. [Trust] defines the requirements:
//
//	                     not required        required
//	not signed           fetched             ErrUnsigned
//	by a trusted key     fetched             fetched
//	by another key       ErrUntrusted        ErrUntrusted
//	damaged, other bytes ErrBadSignature     ErrBadSignature
//
// Without trusted keys, signatures are ignored. With trusted keys, a release with another key's signature is rejected
// even if signatures are optional: the signature is a mistake or an attack. The cache stores manifest and signature
// byte for byte. It verifies them on each fetch, also while the bucket is unavailable.
//
// # Checks before a release is stored
//
// The cache checks sizes against the manifest and the limits below, digests of the archive and of every file in it, and
// paths. It rejects links. A rejected release leaves nothing in the cache. A cache folder holds
//
//	sha256-DIGEST/         the files of one archive, installed by a rename
//	refs/SOURCE/...        what a bucket returned for each fetched release
//	refs/plans/OWNER.json  the releases that a pool runs: Use
//	part-DIGEST            a download; another process can continue it for a day
//	tmp-*, lock            work in progress; leftovers of ended processes are removed
//
// Only the owner of the cache can read it. [Installed.AllowUser] permits another user to read one release, by an entry in the
// access control list of its folder. The entry lasts as long as the release is in the cache.
//
// Nothing is executed by its path. [Installed.Open] returns the hashed file as an open descriptor. An executable finds
// its other files by their paths. These are unchanged if [Installed.Verify] has just returned nil.
//
// The lock is held for short operations only. A process that is stopped while it holds the lock blocks others until
// their contexts end, at most a minute. The error names the lock file.
//
// # Clusterman's layout
//
// [Cache.FetchClusterman] reads CODENAME/clusterman_signals_VERSION.tar.gz, a virtual environment with all signals of a
// version. There is no manifest: the first content seen of a version is pinned, and a later change is ErrChanged. This
// layout needs links. They may point to entries of the archive. Only prodenv/bin/python, or a link in its folder that
// it points to, may point outside: to an absolute path whose last element is python with an optional version.
//
// All functions may be called concurrently. Any number of [Cache] values and processes may share a cache folder.
package release

package release

import (
	"errors"
	"fmt"
	"syscall"
)

// Errors to branch on, and what to say to who asked. Those of a bucket come
// wrapped with the URL of the object and the cause.
var (
	// ErrNotFound: there is no such object, or no such release. The text lists
	// what there is: correct the version.
	ErrNotFound = errors.New("not found")
	// ErrNoBucket: the bucket itself does not exist. Correct its name.
	ErrNoBucket = errors.New("no such bucket")
	// ErrExists: an object is there already; a release was published before with
	// other content, or yanked before. Publish a new version.
	ErrExists = errors.New("exists already")
	// ErrDenied: the bucket refuses these credentials, or there are none. To
	// fetch takes the permissions to get objects and to list the bucket.
	ErrDenied = errors.New("access denied")
	// ErrUnavailable: the bucket, or who gives the credentials for it, cannot be
	// reached, is overloaded or broken; it may work later.
	ErrUnavailable = errors.New("bucket is unavailable")
	// ErrCorrupt: what is stored is not what its manifest says, or the manifest
	// is none. Publish a new version; ask who else writes to the bucket.
	ErrCorrupt = errors.New("corrupt release")
	// ErrUnsafe: an archive or a source holds what must not be unpacked: a path
	// that leads out, a link, a device, too much. Nothing of it was kept.
	ErrUnsafe = errors.New("unsafe release")

	// ErrUnsigned: a signature is required, and the release has none. Publish
	// the same files again with a key, which adds the signature.
	ErrUnsigned = errors.New("release is not signed")
	// ErrUntrusted: the key that signed the release is none of the trusted ones;
	// the text names both. Trust it, or ask who signed.
	ErrUntrusted = errors.New("release is signed by a key that is not trusted")
	// ErrBadSignature: the signature is damaged, or not one of this manifest.
	// Somebody changed one of the two: do not run it.
	ErrBadSignature = errors.New("bad signature")
	// ErrYanked: the version was withdrawn; the text says why. Pin another.
	ErrYanked = errors.New("release is yanked")
	// ErrChanged: an object without a manifest is not what it was when it was
	// first seen. The text says what to remove in order to accept it.
	ErrChanged = errors.New("release has changed")
	// ErrNoSpace: the disk, the quota or the limit of a file's size is full.
	// Nothing was left behind: make room and try again.
	ErrNoSpace = errors.New("no space left")
)

// classifyLocal marks an error of this machine's file system that means that
// there is no room.
func classifyLocal(err error) error {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			return fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
	}
	return err
}

package release

import (
	"errors"
	"fmt"
	"syscall"
)

// Errors to branch on, with the advice for the user. Errors of a bucket wrap them with the URL of the object and the
// cause.
var (
	// ErrNotFound: the object or the release does not exist.
	ErrNotFound = errors.New("not found")
	// ErrNotPublished: the release does not exist. The error is also an ErrNotFound. The text lists what exists: correct
	// the name or the version.
	ErrNotPublished = errors.New("release is not published")
	// ErrNoBucket: the bucket itself does not exist. Correct its name.
	ErrNoBucket = errors.New("no such bucket")
	// ErrExists: the object exists. A release was published before with other content, or was yanked. Publish a new
	// version.
	ErrExists = errors.New("exists already")
	// ErrDenied: the bucket rejects the credentials, or they are missing. Fetching requires the permissions to get
	// objects and to list the bucket.
	ErrDenied = errors.New("access denied")
	// ErrUnavailable: the bucket, or the source of its credentials, is unreachable, overloaded or failing. A retry may
	// succeed.
	ErrUnavailable = errors.New("bucket is unavailable")
	// ErrCorrupt: the stored objects do not match the manifest, or the manifest is invalid. Publish a new version;
	// check which other processes write to the bucket.
	ErrCorrupt = errors.New("corrupt release")
	// ErrUnsafe: an archive or a source contains a path that leads outside, a link, a device, or too much data. Nothing
	// of it was stored.
	ErrUnsafe = errors.New("unsafe release")

	// ErrUnsigned: a signature is required, and the release is not signed. To add one, publish the same files again with a
	// key.
	ErrUnsigned = errors.New("release is not signed")
	// ErrUntrusted: the key that signed the release is not trusted. The text names that key and the trusted ones. Trust
	// the key, or ask its owner.
	ErrUntrusted = errors.New("release is signed by a key that is not trusted")
	// ErrBadSignature: the signature is damaged, or belongs to another manifest. One of the two was changed: do not run
	// the release.
	ErrBadSignature = errors.New("bad signature")
	// ErrYanked: the version was withdrawn; the text gives the reason. Pin another version.
	ErrYanked = errors.New("release is yanked")
	// ErrChanged: the content of a version differs from the first-seen one. The text describes how to accept it.
	ErrChanged = errors.New("release has changed")
	// ErrNoSpace: the disk, the quota or the file size limit is exhausted. Nothing was left behind: free space and try
	// again.
	ErrNoSpace = errors.New("no space left")
)

// classifyLocal wraps a local file system error in ErrNoSpace if it means that space is exhausted.
func classifyLocal(err error) error {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			return fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
	}
	return err
}

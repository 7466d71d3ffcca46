package release

import "errors"

// Errors to branch on. Those of a bucket come wrapped with the URL of the
// object and the cause.
var (
	// ErrNotFound: there is no such object, or no such release.
	ErrNotFound = errors.New("not found")
	// ErrNoBucket: the bucket itself does not exist.
	ErrNoBucket = errors.New("no such bucket")
	// ErrExists: an object is there already; a release was published before
	// with other content.
	ErrExists = errors.New("exists already")
	// ErrDenied: the bucket refuses these credentials, or there are none.
	ErrDenied = errors.New("access denied")
	// ErrUnavailable: the bucket cannot be reached, is overloaded or broken; it
	// may work later.
	ErrUnavailable = errors.New("bucket is unavailable")
	// ErrCorrupt: what is stored is not what its manifest says, or the manifest
	// is none.
	ErrCorrupt = errors.New("corrupt release")
	// ErrUnsafe: an archive or a source holds what must not be unpacked: a path
	// that leads out, a link, a device, too much.
	ErrUnsafe = errors.New("unsafe release")
)

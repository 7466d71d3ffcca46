package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// Exit codes of every command; releaseCodes has those of releases.
const (
	ExitOK     = 0
	ExitFailed = 1 // the command failed; standard error has the reason
	ExitUsage  = 2 // the command line or a file is wrong
)

// releaseCode is the exit code for a refused release.
type releaseCode struct {
	code int
	is   error
	what string
}

// releaseCodes returns the codes in matching order: an ErrExists may wrap ErrYanked for a version that was yanked
// before.
func releaseCodes() []releaseCode {
	return []releaseCode{
		{19, release.ErrExists, "the release exists with other content"},
		{10, release.ErrYanked, "the version is yanked"},
		{11, release.ErrUnsigned, "the release is not signed, but a signature is required"},
		{12, release.ErrUntrusted, "the key that signed it is not trusted"},
		{13, release.ErrBadSignature, "the signature is damaged or belongs to other content"},
		{14, release.ErrCorrupt, "the stored content does not match the manifest"},
		{15, release.ErrUnsafe, "the archive has entries that must not be unpacked"},
		{16, release.ErrChanged, "the content differs from the first-seen content of this version"},
		{17, release.ErrNoSpace, "the disk is full"},
		{18, release.ErrNotFound, "a file of the release is missing in the bucket"},
		{20, release.ErrDenied, "the bucket refuses these credentials"},
		{21, release.ErrUnavailable, "the bucket cannot be reached"},
		{22, release.ErrNoBucket, "bucket not found"},
	}
}

// codeError is an error with an exit code of its own.
type codeError struct {
	error
	code int
}

func (e codeError) Unwrap() error { return e.error }

// WithCode returns the error with an exit code that is not that of its cause.
func WithCode(code int, err error) error { return codeError{err, code} }

// ExitCode returns the exit code for an error.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if e, ok := errors.AsType[codeError](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[*usage.Error](err); ok {
		return ExitUsage
	}
	if _, ok := errors.AsType[*inputfile.Error](err); ok {
		return ExitUsage
	}
	if errors.Is(err, release.ErrNotPublished) {
		return ExitUsage
	}
	for _, c := range releaseCodes() {
		if errors.Is(err, c.is) {
			return c.code
		}
	}
	return ExitFailed
}

// ReleaseCodesHelp lists the codes for a command's help.
func ReleaseCodesHelp() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %d   the command line is wrong, or the release is not published\n", ExitUsage)
	codes := releaseCodes()
	slices.SortFunc(codes, func(a, b releaseCode) int { return a.code - b.code })
	for _, c := range codes {
		fmt.Fprintf(&b, "  %d  %s\n", c.code, c.what)
	}
	return strings.TrimRight(b.String(), "\n")
}

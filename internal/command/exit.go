package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

// Exit codes of every command; those of releases follow in releaseCodes.
const (
	ExitOK     = 0
	ExitFailed = 1 // it could not be done; standard error says why
	ExitUsage  = 2 // the command line or a file is wrong
)

// UsageError is a mistake in a command line or a file; a process ends with 2.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Usage returns err as a mistake in the command line or a file.
func Usage(err error) error { return &UsageError{err} }

// releaseCode is what a command ends with when a release is refused.
type releaseCode struct {
	code int
	is   error
	what string
}

// releaseCodes are in the order in which they are looked for: what says that it is
// yanked may be that it was yanked before.
func releaseCodes() []releaseCode {
	return []releaseCode{
		{19, release.ErrExists, "it is there already, with other content"},
		{10, release.ErrYanked, "the version is yanked"},
		{11, release.ErrUnsigned, "it is not signed, and has to be"},
		{12, release.ErrUntrusted, "the key that signed it is not trusted"},
		{13, release.ErrBadSignature, "the signature is damaged, or of something else"},
		{14, release.ErrCorrupt, "what is stored is not what the manifest says"},
		{15, release.ErrUnsafe, "it holds what must not be unpacked"},
		{16, release.ErrChanged, "it is not what was first seen under this version"},
		{17, release.ErrNoSpace, "the disk is full"},
		{18, release.ErrNotFound, "there is no such release"},
		{20, release.ErrDenied, "the bucket refuses these credentials"},
		{21, release.ErrUnavailable, "the bucket cannot be reached"},
		{22, release.ErrNoBucket, "there is no such bucket"},
	}
}

// ExitCode returns what a process ends with after that error.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if _, ok := errors.AsType[*UsageError](err); ok {
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
	codes := releaseCodes()
	slices.SortFunc(codes, func(a, b releaseCode) int { return a.code - b.code })
	for _, c := range codes {
		fmt.Fprintf(&b, "  %d  %s\n", c.code, c.what)
	}
	return strings.TrimRight(b.String(), "\n")
}

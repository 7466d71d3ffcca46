package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// maxHops bounds a chain of links.
const maxHops = 8

// link is a symbolic link of a tarball.
type link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// links are the links of a tarball, in byte order of their paths.
type links []link

func (l links) find(p string) (string, bool) {
	i, ok := slices.BinarySearchFunc(l, p, func(one link, p string) int { return strings.Compare(one.Path, p) })
	if !ok {
		return "", false
	}
	return l[i].Target, true
}

// follow returns the path that the links lead to from p, and whether that is an absolute path.
func (l links) follow(p string) (end string, absolute bool, err error) {
	for range maxHops {
		target, ok := l.find(p)
		if !ok {
			return p, false, nil
		}
		if path.IsAbs(target) {
			return target, true, nil
		}
		p = path.Join(path.Dir(p), target)
	}
	return "", false, fmt.Errorf("%w: links of %s form a loop", ErrUnsafe, p)
}

// check returns ErrUnsafe for the first link that must not be created. A link must stay inside, also through other
// links. Links of the entry may end at an interpreter of this machine.
func (l links) check(entry string) error {
	interpreter, absolute, err := l.follow(entry)
	if err != nil {
		return err
	}
	for _, one := range l {
		switch {
		case path.IsAbs(one.Target):
			if !absolute || one.Target != interpreter || path.Dir(one.Path) != path.Dir(entry) || !isInterpreter(one.Target) {
				return fmt.Errorf("%w: archive: link %.100q leads to %.100q; only the one of %s may lead to a python outside",
					ErrUnsafe, one.Path, one.Target, entry)
			}
		case !staysInside(one):
			return fmt.Errorf("%w: archive: link %.100q leads outside, to %.100q", ErrUnsafe, one.Path, one.Target)
		}
		for dir := path.Dir(one.Path); dir != "."; dir = path.Dir(dir) {
			if _, ok := l.find(dir); ok {
				return fmt.Errorf("%w: archive: link %.100q is below the link %.100q", ErrUnsafe, one.Path, dir)
			}
		}
	}
	return nil
}

// staysInside reports whether a relative link in a real folder leads to an entry of the archive. The target may go up
// first, through real folders, and then only down. If it passes other links, those stay inside too.
func staysInside(l link) bool {
	if len(l.Target) > maxPath || l.Target == "" || hasControl(l.Target) || strings.Contains(l.Target, `\`) {
		return false
	}
	depth, down := strings.Count(l.Path, "/"), false
	for part := range strings.SplitSeq(l.Target, "/") {
		switch {
		case part == "..":
			if depth--; down || depth < 0 {
				return false
			}
		case part == "":
			return false
		case part != ".":
			down = true
		}
	}
	return true
}

// isInterpreter reports whether an absolute path is that of a python.
func isInterpreter(p string) bool {
	version, ok := strings.CutPrefix(path.Base(p), "python")
	return ok && strings.Trim(version, ".0123456789") == "" && path.Clean(p) == p && len(p) <= maxPath && !hasControl(p)
}

func (l links) make(ctx context.Context, root *os.Root) error {
	for _, one := range l {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if dir := path.Dir(one.Path); dir != "." {
			if err := root.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := root.Symlink(one.Target, one.Path); err != nil {
			return err
		}
	}
	return nil
}

// verify returns ErrCorrupt if a link below root differs from the expected one.
func (l links) verify(ctx context.Context, root *os.Root) error {
	for _, one := range l {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		target, err := root.Readlink(one.Path)
		if err != nil {
			return err
		}
		if target != one.Target {
			return fmt.Errorf("%w: link %s leads to %s, want %s", ErrCorrupt, one.Path, target, one.Target)
		}
	}
	return nil
}

func openInterpreter(p string) (*os.File, error) {
	f, err := os.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe must not block
	if err != nil {
		return nil, fmt.Errorf("the interpreter that the release was built with is not on this machine: %w", err)
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 == 0) {
		err = errors.New(p + " is not an executable file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

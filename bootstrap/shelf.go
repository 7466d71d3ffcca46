package bootstrap

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

// Fetcher brings a release to this machine, verified. It is asked for several
// releases at the same time, and for the same one, which it then brings once.
type Fetcher interface {
	Fetch(ctx context.Context, ref release.Ref) (release.Installed, error)
}

// shelf holds the releases that are run, each fetched once. A program that is
// sealed in memory is opened and hashed once too: a restart costs no more than a
// descriptor.
type shelf struct {
	fetcher Fetcher

	mu    sync.Mutex
	items map[release.Ref]*item
}

// item is one release on the shelf.
type item struct {
	installed release.Installed
	program   *os.File
	users     int
}

func newShelf(f Fetcher) *shelf { return &shelf{fetcher: f, items: map[release.Ref]*item{}} }

// take returns a release, fetched unless it is on the shelf. It stays there until
// it has been given back as often as it was taken.
func (s *shelf) take(ctx context.Context, ref release.Ref) (*item, error) {
	if i := s.use(ref); i != nil {
		return i, nil
	}
	installed, err := s.fetcher.Fetch(ctx, ref)
	if err != nil {
		return nil, err
	}
	program, err := installed.Open(installed.Entry)
	if err != nil {
		return nil, err
	}
	return s.put(ref, &item{installed: installed, program: program}), nil
}

// use returns what is on the shelf, nil if it is not.
func (s *shelf) use(ref release.Ref) *item {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.items[ref]
	if i != nil {
		i.users++
	}
	return i
}

// put puts an item on the shelf, unless somebody else was faster.
func (s *shelf) put(ref release.Ref, i *item) *item {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.items[ref]; first != nil {
		i.program.Close()
		i = first
	}
	i.users++
	s.items[ref] = i
	return i
}

// giveBack ends the use of an item.
func (s *shelf) giveBack(i *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.users--
	if i.users == 0 {
		delete(s.items, i.installed.Ref)
		i.program.Close()
	}
}

// inUse returns the releases that are on the shelf, in any order.
func (s *shelf) inUse() []release.Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.items))
}

// open returns a descriptor of a release's program, for the caller to close. A
// release that is not sealed is verified anew, with all its files, and fetched
// again if one was damaged since.
func (s *shelf) open(ctx context.Context, i *item) (*os.File, error) {
	if isSealed(i.program) {
		fd, err := unix.FcntlInt(i.program.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open the program of %s: %w", i.installed.Ref, err)
		}
		return os.NewFile(uintptr(fd), i.program.Name()), nil
	}
	err := i.installed.Verify(ctx)
	if err == nil {
		var program *os.File
		if program, err = i.installed.Open(i.installed.Entry); err == nil {
			return program, nil
		}
	}
	if ctx.Err() != nil {
		return nil, err
	}
	again, err := s.fetcher.Fetch(ctx, i.installed.Ref)
	if err != nil {
		return nil, err
	}
	return again.Open(again.Entry)
}

// isSealed reports whether nobody can write the file any more.
func isSealed(f *os.File) bool {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	return err == nil && seals&unix.F_SEAL_WRITE != 0
}

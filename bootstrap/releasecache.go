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

// Fetcher fetches a verified release to this machine. Calls may be concurrent, also for the same release, which should
// then be fetched once.
type Fetcher interface {
	Fetch(ctx context.Context, ref release.Ref) (release.Installed, error)
}

// releaseCache holds the releases in use, each fetched once. A program sealed in memory is also opened and hashed once,
// so a restart needs only a new descriptor.
type releaseCache struct {
	fetcher Fetcher

	mu    sync.Mutex
	items map[release.Ref]*cachedRelease
}

// cachedRelease is one release with its number of users.
type cachedRelease struct {
	installed release.Installed
	program   *os.File
	users     int
}

func newReleaseCache(f Fetcher) *releaseCache {
	return &releaseCache{fetcher: f, items: map[release.Ref]*cachedRelease{}}
}

// takeRelease returns a release and fetches it if needed. Call giveBack once for each takeRelease.
func (s *releaseCache) takeRelease(ctx context.Context, ref release.Ref) (*cachedRelease, error) {
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
	return s.putRelease(ref, &cachedRelease{installed: installed, program: program}), nil
}

// use returns a cached release, or nil.
func (s *releaseCache) use(ref release.Ref) *cachedRelease {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.items[ref]
	if i != nil {
		i.users++
	}
	return i
}

// putRelease adds a release unless another caller was faster.
func (s *releaseCache) putRelease(ref release.Ref, i *cachedRelease) *cachedRelease {
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

// giveBack ends one use of a release.
func (s *releaseCache) giveBack(i *cachedRelease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.users--
	if i.users == 0 {
		delete(s.items, i.installed.Ref)
		i.program.Close()
	}
}

// inUse returns the cached releases, unsorted.
func (s *releaseCache) inUse() []release.Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.items))
}

// open returns a descriptor of a release's program, for a process of that user; 0: bootstrap's user. The caller closes it. If the
// program is not sealed, open verifies all files of the release, fetches it again if one is damaged, and permits the user to
// read them: the program finds its other files by their paths.
func (s *releaseCache) open(ctx context.Context, i *cachedRelease, user int) (*os.File, error) {
	if isSealed(i.program) {
		fd, err := unix.FcntlInt(i.program.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open the program of %s: %w", i.installed.Ref, err)
		}
		return os.NewFile(uintptr(fd), i.program.Name()), nil
	}
	in := i.installed
	err := in.Verify(ctx)
	if err != nil && ctx.Err() == nil {
		in, err = s.fetcher.Fetch(ctx, in.Ref)
	}
	if err == nil && user != 0 {
		err = in.AllowUser(ctx, user)
	}
	if err != nil {
		return nil, err
	}
	return in.Open(in.Entry)
}

// isSealed reports whether the file is sealed against writing.
func isSealed(f *os.File) bool {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	return err == nil && seals&unix.F_SEAL_WRITE != 0
}

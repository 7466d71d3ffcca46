package agent

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

// Releases supplies the files that the commands of app instances use.
type Releases interface {
	// Fetch returns the folder with the verified files of a release, and fetches them if needed. inUse returns the
	// releases of all app instances of the machine; it may be called until Fetch returns. Calls may be concurrent.
	Fetch(ctx context.Context, ref release.Ref, inUse func() []release.Ref) (dir string, err error)
}

const (
	fetchesAtOnce = 4
	fetchTimeout  = 15 * time.Minute // of one release, with the wait for a turn
)

// artifacts are the releases of the copies. The loop adds and removes uses. Fetches run beside the loop.
type artifacts struct {
	source  Releases                      // nil: the machine fetches no releases
	turns   chan struct{}                 // one for each fetch at the same time
	pending map[string]context.CancelFunc // by instance; only the loop uses it

	mu   sync.Mutex
	uses map[release.Ref]int // number of copies; above 0
}

func newArtifacts(source Releases) *artifacts {
	return &artifacts{source: source, turns: make(chan struct{}, fetchesAtOnce), pending: map[string]context.CancelFunc{}, uses: map[release.Ref]int{}}
}

// inUse returns the releases of all copies, unsorted.
func (f *artifacts) inUse() (refs []release.Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ref := range maps.Keys(f.uses) {
		refs = append(refs, ref)
	}
	return refs
}

// use counts a copy with a release, or with -1 no longer. Other copies do not count.
func (f *artifacts) use(r wire.StartRequest, n int) {
	ref, err := release.ParseRef(r.Release)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.uses[ref] += n; f.uses[ref] <= 0 {
		delete(f.uses, ref)
	}
}

// fetch returns the folder of a release.
func (f *artifacts) fetch(ctx context.Context, text string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	ref, err := release.ParseRef(text)
	if err != nil {
		return "", err
	}
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	return f.source.Fetch(ctx, ref, f.inUse)
}

// cancel ends the fetch of a copy, and reports whether there is one.
func (f *artifacts) cancel(instance string) bool {
	end, ok := f.pending[instance]
	if ok {
		end()
	}
	return ok
}

// fetched is the result of a fetch.
type fetched struct {
	dir string
	err error
}

package bootstrapd

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/config"
)

// yankEvery is the interval of checking running releases for yanks.
const yankEvery = time.Minute

// yanks has the yank reasons of running releases. The zero value is empty. It is safe for concurrent use.
type yanks struct {
	mu  sync.Mutex
	why map[release.Ref]string
}

// mark sets Yanked of a process and of its candidate.
func (y *yanks) mark(p *api.Process) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for ; p != nil; p = p.Candidate {
		if p.Version == "" {
			continue
		}
		if ref, err := release.ParseRef(p.Signal + "@" + p.Version); err == nil {
			p.Yanked = y.why[ref]
		}
	}
}

// all returns the reasons by release.
func (y *yanks) all() map[release.Ref]string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.why // it is replaced, and never changed
}

// followYanks checks running releases for yanks periodically, until ctx ends, and passes the result to found. If the bucket does not
// answer, the last result stays.
func (r *releases) followYanks(ctx context.Context, running func() []release.Ref, found func(map[release.Ref]string)) error {
	due := time.NewTicker(yankEvery)
	defer due.Stop()
	for {
		r.refreshYanks(ctx, running())
		found(r.yanks.all())
		select {
		case <-ctx.Done():
			return nil
		case <-due.C:
		}
	}
}

func (r *releases) refreshYanks(ctx context.Context, running []release.Ref) {
	if len(running) == 0 {
		return
	}
	cache, bucket, service, err := r.open(ctx)
	if err != nil || service.Releases.Layout == config.LayoutClusterman { // which has no yanks
		return
	}
	r.yanks.mu.Lock()
	before := maps.Clone(r.yanks.why)
	r.yanks.mu.Unlock()
	now := make(map[release.Ref]string)
	for _, ref := range running {
		yanked, err := cache.Yanked(ctx, bucket, ref)
		switch {
		case err == nil && yanked != nil:
			now[ref] = yanked.Why
			if before[ref] == "" {
				r.log.Warn("running release is yanked, pin another version", "release", ref.String(), "why", yanked.Why)
			}
		case err != nil && before[ref] != "":
			now[ref] = before[ref]
		}
	}
	r.yanks.mu.Lock()
	r.yanks.why = now
	r.yanks.mu.Unlock()
}

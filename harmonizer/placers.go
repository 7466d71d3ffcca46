package harmonizer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

const (
	// maxPlacedCopies bounds the copies of one request to a placer.
	maxPlacedCopies = 500
	// placersTimeout bounds one request to a placer. The machine repeats an unanswered one.
	placersTimeout = 2 * time.Second
	// waitingPlacers bounds the requests that wait.
	waitingPlacers = 64
)

// placerRequest is one request to the placer of a pool.
type placerRequest struct {
	pool   string
	copies []api.PlacedCopy
}

// placerRequests requests from the placers which copies they put on the nodes that list them, so that the loop does not wait. Each pool
// has requests of its own: a pool without a placer delays no other pool.
type placerRequests struct {
	placers Placers
	enqueue Enqueue

	mu      sync.Mutex
	waiting map[string][]placerRequest // by pool, also those that are sent now
	wake    alarm
}

func newPlacerRequests(p Placers, enqueue Enqueue) *placerRequests {
	return &placerRequests{placers: p, enqueue: enqueue, waiting: map[string][]placerRequest{}, wake: make(alarm, 1)}
}

// queue queues requests. It drops those that do not fit: the machine repeats them.
func (p *placerRequests) queue(due map[string][]api.PlacedCopy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pool, copies := range due {
		for part := range slices.Chunk(copies, maxPlacedCopies) {
			if len(p.waiting[pool]) < waitingPlacers {
				p.waiting[pool] = append(p.waiting[pool], placerRequest{pool, part})
			}
		}
	}
	p.wake.ring()
}

// run sends the requests until ctx ends. It always returns nil.
func (p *placerRequests) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	working := map[string]bool{}
	ended := make(chan string)
	for {
		p.mu.Lock()
		for pool := range p.waiting {
			if !working[pool] {
				working[pool] = true
				wg.Go(func() {
					p.runPool(ctx, pool)
					select {
					case ended <- pool:
					case <-ctx.Done():
					}
				})
			}
		}
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case pool := <-ended:
			delete(working, pool)
		case <-p.wake:
		}
	}
}

// runPool sends the waiting requests of a pool, one after the other.
func (p *placerRequests) runPool(ctx context.Context, pool string) {
	for ctx.Err() == nil {
		p.mu.Lock()
		if len(p.waiting[pool]) == 0 {
			delete(p.waiting, pool)
			p.mu.Unlock()
			return
		}
		r := p.waiting[pool][0]
		p.waiting[pool] = p.waiting[pool][1:]
		p.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, placersTimeout)
		answer, err := p.placers.Placed(limited, pool, r.copies)
		cancel()
		if err == nil { // otherwise the machine repeats the request
			_ = p.enqueue(ctx, apps.Placed{Pool: pool, Placed: answer.Placed, NotPlaced: answer.NotPlaced}) // fails only when ctx ends
		}
	}
}
